// Sparse Power EP on a line, in the letters of the pages, and figures in which a hand can move it.
// A state has x, y, Z, power, variance, lengthscale, noise, and labels instead of values or not.
(() => {
  const { abs, ceil, exp, hypot, log, log1p, max, min, PI, sqrt } = Math;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const range = (n, a, b) => Array.from({ length: n }, (_, i) => a + ((b - a) * i) / (n - 1));
  const log1pRatio = (t, power) => (power > 0 ? log1p(power * t) / power : t);
  function dot(a, b, n = b.length) {
    let total = 0;
    for (let i = 0; i < n; i++) total += a[i] * b[i];
    return total;
  }
  function solve(L, b) {
    const x = b.slice();
    for (let i = 0; i < x.length; i++) x[i] = (b[i] - dot(L[i], x, i)) / L[i][i];
    return x;
  }
  function cholesky(A) {
    const L = [];
    for (const a of A) {
      const row = solve(L, a.slice(0, L.length));
      L.push([...row, sqrt(a[L.length] - dot(row, row))]);
    }
    return L;
  }
  // The prior at some places: the columns of V = Luu⁻¹Kuf, and what u leaves unexplained, Dₙ.
  function prior({ Z, x, variance, lengthscale }, places = x) {
    const k = (a, b) => variance * exp(-0.5 * ((a - b) / lengthscale) ** 2);
    const Luu = cholesky(Z.map((a, i) => Z.map((b, j) => k(a, b) + 1e-8 * variance * (i === j))));
    const V = places.map((at) => solve(Luu, Z.map((z) => k(z, at))));
    return { V, D: V.map((v) => max(variance - dot(v, v), 0)) };
  }
  // q(u): the factor LB of B = I + V diag(τ) Vᵀ, b = LB⁻¹Vν, and the logarithm of its integral.
  function posterior({ V }, sites) {
    const rows = V[0].map((_, m) => V.map((v) => v[m]));
    const scaled = rows.map((row) => row.map((v, n) => v * sites[n].tau));
    const LB = cholesky(rows.map((a, i) => scaled.map((b, j) => dot(a, b) + (i === j))));
    const b = solve(LB, rows.map((row) => sum(row.map((v, n) => v * sites[n].nu))));
    return { LB, b, evidence: 0.5 * dot(b, b) - sum(LB.map((row, m) => log(row[m]))) };
  }
  // Mean and variance of wᵀu, and the variance of f, at the places of a prior.
  function moments({ LB, b }, { V, D }) {
    const T = V.map((v) => solve(LB, v));
    return T.map((t, n) => ({ mu: dot(b, t), a: dot(t, t), variance: dot(t, t) + D[n] }));
  }
  // log Φ(f) and its slope φ/Φ, by Φ(−f)/φ(f) = f ∫ N(t; 0, 1)/(t² + f²) dt for f > 0: midpoints,
  // and the pole that they miss.
  const NODES = range(13, 0.35, 8.75).map((t) => [t * t, (1.4 * exp(-0.5 * t * t)) / sqrt(2 * PI)]);
  function logPhi(f) {
    const density = exp(-0.5 * f * f) / sqrt(2 * PI);
    let ratio = f * f < 64 ? 1 / density / (1 + exp((2 * PI * abs(f)) / 0.7)) : 0;
    for (const [tt, w] of NODES) ratio += (w * abs(f)) / (tt + f * f);
    if (f < 0) return [log(ratio) - 0.5 * f * f - 0.5 * log(2 * PI), 1 / ratio];
    return [log1p(-ratio * density), density / (1 - ratio * density)];
  }
  // z = log E[p^α]/α under the cavity N(m, s) of f, with its derivatives d₁ and d₂ for m.
  function projectValue({ power, noise }, y, m, s) {
    const d1 = (y - m) / (noise + power * s);
    const z = -0.5 * (log(2 * PI * noise) + log1pRatio(s / noise, power) + d1 * (y - m));
    return { z, d1, d2: -1 / (noise + power * s) };
  }
  function projectLabel({ power }, y, m, s) {
    const last = ceil(7 * max(1.1, 2 * sqrt(s)));
    const f = range(2 * last + 1, m - 7 * sqrt(s), m + 7 * sqrt(s));
    const terms = f.map((at) => logPhi(y * at));
    const w = f.map((at, i) => exp(power * terms[i][0] - (0.5 * (at - m) ** 2) / s));
    const mean = (entry) => dot(w, terms.map(entry)) / sum(w);
    const d1 = mean(([, slope]) => y * slope);
    const d2 = mean(([, slope], i) => y * slope * (f[i] - m)) / s - power * d1 * d1;
    const z = power > 0 ? log((7 * sum(w)) / last / sqrt(2 * PI)) / power : mean(([l]) => l);
    return { z, d1, d2 };
  }
  const project = (state, ...given) =>
    state.labels ? projectLabel(state, ...given) : projectValue(state, ...given);
  // The site that takes the projection's place beside a cavity N(m, a) of wᵀu.
  function update({ d1, d2 }, m, a, power) {
    const rho = 1 + power * d2 * a;
    return { tau: -d2 / rho, nu: (d1 - d2 * m) / rho };
  }
  // One look at all data: deletions, projections, updates, and log Z_PEP. The sites of values are
  // known at once, since they depend on no cavity; those of labels go 0.7 of their way.
  function look(state, sites) {
    const { power, y, labels } = state;
    const before = prior(state);
    if (!labels || sites?.length !== y.length) {
      const first = y.map((one, n) => project(state, one, 0, before.D[n] + 1e-12));
      sites = first.map((found) => update(found, 0, 0, power));
    }
    const q = { ...posterior(before, sites), sites, change: 0 };
    q.next = moments(q, before).map(({ mu, a }, n) => {
      const { tau, nu } = sites[n];
      const rho = 1 - power * tau * a;
      const m = (mu - power * nu * a) / rho;
      const s = max(a / rho + before.D[n], 1e-12);
      const { z, d1, d2 } = project(state, y[n], m, s);
      const site = update({ d1, d2 }, m, a / rho, power);
      q.evidence += z - 0.5 * log1pRatio(-tau * a, power);
      q.evidence += (0.5 * (tau * mu * mu - 2 * nu * mu + power * nu * nu * a)) / rho;
      q.change = max(q.change, abs(site.tau - tau), abs(site.nu - nu));
      return { tau: tau + 0.7 * (site.tau - tau), nu: nu + 0.7 * (site.nu - nu), s, d1, d2 };
    });
    return q;
  }
  // The slopes of log Z for log variance, log lengthscale, log σ² and Z. Where the sites stay, it
  // depends neither on them nor on cavities of wᵀu, so that q(u)'s integral and Dₙ are left.
  function gradient(state, q) {
    const h = q.next.map(({ d1, d2 }) => 0.5 * (d2 + state.power * d1 * d1));
    function at(change) {
      const before = prior({ ...state, ...change });
      return posterior(before, q.sites).evidence + dot(h, before.D);
    }
    const slope = (change) => (at(change(1e-5)) - at(change(-1e-5))) / 2e-5;
    const along = (name) => slope((t) => ({ [name]: state[name] * exp(t) }));
    const terms = q.next.map(({ s, d1, d2 }) => 0.5 * (state.noise * d1 * d1 - 1 - s * d2));
    const noise = state.labels ? 0 : sum(terms);
    const Z = state.Z.map((z, m) => slope((t) => ({ Z: state.Z.with(m, z + t) })));
    return { variance: along("variance"), lengthscale: along("lengthscale"), noise, Z };
  }
  // Bounds on the exact evidence for Gaussian noise: the tight one below, Titsias' one above.
  function bounds(state) {
    const { y, noise } = state;
    const { D } = prior(state);
    const total = noise + sum(D);
    const [low, high] = [noise, total].map((one) => look({ ...state, power: 0, noise: one }));
    const tight = sum(D.map((one) => one / noise - log1p(one / noise)));
    const misfit = dot(y, y) * (1 / noise - 1 / total) - dot(low.b, low.b) + dot(high.b, high.b);
    return [tight, sum(D) / noise + misfit].map((gap) => low.evidence + 0.5 * gap);
  }

  // A point is [x] if it is inducing, else [x, y]; drawings have the units of the data, upwards.
  const form = document.querySelector("form.moving");
  const sliders = form.elements;
  const svgs = form.querySelectorAll("svg");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const figure = { frame };
  const isInducing = (point) => point.length < 2;
  const said = (value) => value.toFixed(2).replace("-", "−");
  const line = (xs, ys) => `M${xs.map((x, i) => `${x} ${ys[i]}`).join("L")}`;
  const bars = (xs, low, high) => xs.map((x, i) => `M${x} ${low[i]}V${high[i]}`).join("");
  const dots = (points) => points.map(([x, y = -2.4]) => `M${x} ${y}h0`).join("");
  const edge = (f, z) => f.map(({ mu, variance }) => mu + z * sqrt(variance));
  const around = (low, high) => [...low, ...high.toReversed()];
  const band = (x, f) => line(around(x, x), around(edge(f, -1.645), edge(f, 1.645)));
  function draw(svg, [left, low, width, height], paths) {
    svg.setAttribute("viewBox", `${left} ${-low - height} ${width} ${height}`);
    const drawn = paths.map(([kind, d]) => `<path class="${kind}" d="${d}"/>`);
    svg.innerHTML = `<g transform="scale(1 -1)">${drawn.join("")}</g>`;
  }
  // The process beside the exact one, q(u), site variances, and the evidence at all powers. The
  // sites of labels go one step in each frame.
  function drawProcess(state) {
    const { points, point, x, Z, power, labels, noise } = state;
    const search = (name, at) => (figure.found[name] = look(at, figure.found[name]?.next));
    const q = search("q", state);
    const exact = search("exact", { ...state, Z: x });
    const powers = range(9, 0, 1).map((root) => root ** 2); // more where the evidence is steep
    const along = powers.map((at) => search(at, { ...state, power: at }).evidence);
    const limits = labels ? [] : bounds(state);
    const grid = range(101, 0, 6);
    const own = moments(q, prior(state, grid));
    const dense = moments(exact, prior({ ...state, Z: x }, grid));
    const u = moments(q, prior(state, Z));
    draw(svgs[0], [0, -2.6, 6, 5.2], [
      ["exact band", band(grid, dense)],
      ["own band", band(grid, own)],
      ["exact", line(grid, edge(dense, 0))],
      ["own", line(grid, edge(own, 0))],
      ["summary", bars(Z, edge(u, -1.645), edge(u, 1.645))],
      ...points.map((one) => [isInducing(one) ? "inducing" : "datum", dots([one])]),
      ["chosen", dots(points.filter((_, n) => n === point))],
      ...points.map((one, n) => [`hand" data-point="${n}`, dots([one])]),
    ]);
    const sites = q.sites.map(({ tau }) => min(1 / tau, 12));
    draw(svgs[1], [0, 0, 6, 1.2 * max(...sites)], [
      ["site", bars(x, x.map(() => 0), sites)],
      ["bound", labels ? "" : `M0 ${noise}H6`],
    ]);
    const levels = [...along, ...limits, exact.evidence];
    const low = min(...levels) - 1;
    draw(svgs[2], [0, low, 1, max(...levels) + 1 - low], [
      ["bound", limits.map((limit) => `M0 ${limit}H1`).join("")],
      ["exact", `M0 ${exact.evidence}H1`],
      ["own", line(powers, along)],
      ["here", dots([[power, q.evidence]])],
    ]);
    sliders.point.max = points.length - 1;
    [sliders.place.value, sliders.height.value] = figure.points[point] ?? [];
    const exactly = `with all data inducing ${said(exact.evidence)}`;
    const between = labels ? "" : `, bounds ${limits.map(said).join(" and ")}`;
    return `${Z.length} inducing points: evidence ${said(q.evidence)} nats, ${exactly}${between}.`;
  }
  // One data point: its cavity, likelihood term and site, the tilted density as an area, and the
  // Gaussian that has its moments, each as high as its peak.
  function drawSite(state) {
    const { power, m, s, y, labels, noise } = state;
    const { d1, d2 } = project(state, y[0], m, s);
    const { tau, nu } = update({ d1, d2 }, m, s, power);
    const f = range(201, -6, 6);
    const cavity = f.map((at) => (-0.5 * (at - m) ** 2) / s);
    const term = f.map((at) => (labels ? logPhi(y[0] * at)[0] : (-0.5 * (y[0] - at) ** 2) / noise));
    const site = f.map((at) => nu * at - 0.5 * tau * at * at);
    const times = (factor) => cavity.map((one, i) => one + power * factor[i]);
    const peak = (logs) => line(f, logs.map((one) => exp(one - max(...logs))));
    draw(svgs[0], [-6, 0, 12, 1.1], [
      ["own band", peak(times(term))],
      ["exact", peak(cavity)],
      ["bound", peak(term)],
      ["site", peak(site)],
      ["own", peak(times(site))],
    ]);
    const tilted = `mean ${said(m + power * s * d1)}, variance ${said(s + power * s * s * d2)}`;
    return `Tilted ${tilted}; site precision τ = ${said(tau)}, shift ν = ${said(nu)}.`;
  }
  // One step of gradient ascent, shorter each time; sliders stop at their ends.
  function train({ state, found, points, steps }) {
    const g = gradient(state, found.q);
    const step = (0.004 * steps) / hypot(1e-9, g.variance, g.lengthscale, g.noise, ...g.Z);
    const inducing = points.filter(isInducing);
    inducing.forEach((point, m) => point.fill(min(max(point[0] + step * g.Z[m], 0), 6)));
    for (const name of ["variance", "lengthscale", "noise"]) {
      sliders[name].value = state[name] * exp(step * g[name]);
    }
  }
  const buttons = {
    train: () => (figure.steps = 40),
    datum: () => figure.points.length < 100 && figure.points.push([3.2, 0]),
    inducing() {
      const { x, Z } = figure.state;
      const { D } = prior(figure.state);
      if (Z.length < 20) figure.points.push([x[D.indexOf(max(...D))]]); // what is explained least
    },
    remove() {
      const rest = figure.points.toSpliced(sliders.point.value, 1); // −1: the last one
      if (!rest.every(isInducing)) figure.points = rest;
      sliders.point.value = -1;
    },
    restart() {
      form.reset();
      Object.assign(figure, { points: JSON.parse(form.dataset.points), found: {}, steps: 0 });
    },
  };
  // Sliders and points as a state; labels are drawn where they are, at ±1.
  function read() {
    const values = Array.from(new FormData(form), ([name, value]) => [name, +value]);
    const state = Object.fromEntries(values);
    const target = (y) => (state.labels ? (y < 0 ? -1 : 1) : y);
    const points = figure.points.map(([x, ...y]) => [x, ...y.map(target)]);
    const data = points.filter((point) => !isInducing(point));
    const Z = points.filter(isInducing).map(([x]) => x);
    figure.state = { ...state, points, Z, x: data.map(([x]) => x), y: data.map(([, y]) => y) };
  }
  // Draws once, and returns whether there is more to come.
  function frame() {
    read();
    figure.words = (svgs.length > 1 ? drawProcess : drawSite)(figure.state);
    if (figure.steps-- > 0) train(figure);
    for (const slider of form.querySelectorAll("[type=range]")) {
      slider.previousElementSibling.textContent = +slider.valueAsNumber.toFixed(2);
    }
    clearTimeout(figure.later);
    figure.later = setTimeout(() => (form.querySelector("p").textContent = figure.words), 200);
    return figure.steps > 0 || Object.values(figure.found).some((q) => q.change > 1e-5);
  }
  function ask() {
    cancelAnimationFrame(figure.asked);
    figure.asked = requestAnimationFrame(() => {
      let more = frame();
      while (more && still.matches) more = frame();
      if (more) ask();
    });
  }
  // The chosen point goes where its sliders are.
  function move() {
    const point = figure.points[sliders.point.value];
    if (point) point[0] = +sliders.place.value;
    if (point?.length > 1) point[1] = +sliders.height.value;
  }
  form.oninput = ({ target: { name } }) => ask(/place|height/.test(name) && move());
  form.onclick = ({ target: { name } }) => ask(buttons[name]?.());
  svgs[0].onpointerdown = ({ target, pointerId }) => {
    sliders.point.value = target.dataset.point ?? -1;
    svgs[0].setPointerCapture(pointerId);
    ask();
  };
  svgs[0].onpointermove = ({ buttons, clientX, clientY }) => {
    const at = new DOMPoint(clientX, clientY).matrixTransform(svgs[0].getScreenCTM().inverse());
    [sliders.place.value, sliders.height.value] = [at.x, -at.y];
    if (buttons) ask(move());
  };
  buttons.restart();
  // the picture for pages without JavaScript
  document.querySelector(".moving ~ .cell-output, .moving ~ * .cell-output")?.remove();
  form.figure = figure;
  form.hidden = false;
  ask(frame());
  globalThis.powerEP = { prior, look, moments, gradient, bounds };
})();
