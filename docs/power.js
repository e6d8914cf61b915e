// The power in your hand: sparse Power EP on a line, in the letters of the pages, and figures that one can move. First the equations:
// a state has x, y, Z, power, variance, lengthscale, noise and labels (or not); sites have tau and nu; a matrix is an array of rows.
(function () {
  const JITTER = 1e-8, { exp, log, log1p, max, min, PI, sqrt } = Math;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const dot = (a, b) => { let total = 0; for (let i = 0; i < a.length; i++) total += a[i] * b[i]; return total; };
  const matrix = (n, entry) => Array.from({ length: n }, (_, i) => Float64Array.from({ length: n }, (_, j) => entry(i, j)));
  const range = (n, from, to) => Array.from({ length: n }, (_, i) => from + ((to - from) * i) / max(n - 1, 1));
  const log1pRatio = (a, power) => (power > 0 ? log1p(power * a) / power : a); // log(1 + αa)/α and its limit at α = 0
  function solve(L, b) { // L⁻¹b; row i of L has i + 1 entries, and the places of x that are not known yet are 0
    const x = new Float64Array(b.length);
    for (let i = 0; i < x.length; i++) x[i] = (b[i] - dot(L[i], x)) / L[i][i];
    return x;
  }
  function solveT(L, b) { // L⁻ᵀb
    const x = Float64Array.from(b);
    for (let i = x.length - 1; i >= 0; i--) {
      x[i] /= L[i][i];
      for (let k = 0; k < i; k++) x[k] -= L[i][k] * x[i];
    }
    return x;
  }
  function cholesky(A) {
    const L = [];
    A.forEach((a, i) => { const row = solve(L, a.subarray(0, i)); L.push(Float64Array.of(...row, sqrt(max(a[i] - dot(row, row), 1e-300)))); });
    return L;
  }

  // The prior: Luu, the columns vₙ of V = Luu⁻¹Kuf, and what u leaves unexplained, Dₙ = k(xₙ, xₙ) − |vₙ|².
  const k = (a, b, state) => state.variance * exp(-0.5 * ((a - b) / state.lengthscale) ** 2);
  function prior(state, Z = state.Z, x = state.x) {
    const Luu = cholesky(matrix(Z.length, (i, j) => k(Z[i], Z[j], state) + (i === j) * JITTER * state.variance));
    const V = x.map((at) => solve(Luu, Z.map((z) => k(z, at, state))));
    return { Z, Luu, V, D: V.map((v) => max(state.variance - dot(v, v), 0)) };
  }
  // q(u): B = I + V diag(τ) Vᵀ, its factor LB, b = LB⁻¹Vν, and mean μₙ and variance aₙ of wₙᵀu.
  function posterior({ Z, V }, { tau, nu }) {
    const B = matrix(Z.length, (i, j) => (i === j) + 0), Vnu = new Float64Array(Z.length);
    for (let n = 0; n < V.length; n++) for (let v = V[n], i = 0; i < v.length; i++) {
      Vnu[i] += nu[n] * v[i];
      for (let scaled = tau[n] * v[i], row = B[i], j = 0; j <= i; j++) row[j] += scaled * v[j];
    }
    const LB = cholesky(B), b = solve(LB, Vnu), T = V.map((v) => solve(LB, v));
    return { B, LB, b, mu: T.map((t) => dot(b, t)), a: T.map((t) => dot(t, t)) };
  }
  // log Φ(f) and its slope φ/Φ: a series, and in the tail the continued fraction of Mills' ratio.
  function logPhi(f) {
    const density = exp(-0.5 * f * f) / sqrt(2 * PI), size = Math.abs(f);
    let upper = 0, term = size, series = size; // upper: Φ(−|f|)/φ(f)
    if (size < 3) {
      for (let n = 3; term > 1e-17 * series; n += 2) series += term *= (f * f) / n;
      upper = 0.5 / density - series;
    } else for (let n = Math.ceil(6 + 450 / size ** 2); n >= 0; n--) upper = 1 / (size + (n + 1) * upper);
    if (f < 0) return [log(upper) - 0.5 * f * f - 0.5 * log(2 * PI), 1 / upper];
    return [log1p(-upper * density), density / (1 - upper * density)];
  }
  // z = log E[p^α]/α under the cavity N(m, s) of f, and its derivatives d₁ and d₂; `noise` is that for log σ².
  const project = {
    values(y, m, s, { power, noise }) {
      const total = noise + power * s, r = y - m;
      const z = -0.5 * (log(2 * PI * noise) + log1pRatio(s / noise, power) + (r * r) / total);
      return { z, d1: r / total, d2: -1 / total, noise: 0.5 * (s / total - 1 + noise * (r / total) ** 2) };
    },
    labels(y, m, s, { power }) { // the trapezoid rule
      const step = min(0.15, sqrt(s) / 6), last = Math.ceil((10 * sqrt(s)) / step);
      let mass = 0, l = 0, l1 = 0, l2 = 0, l11 = 0; // sums of weights, and with log p, its derivatives and the square of the first
      for (let i = -last; i <= last; i++) {
        const f = m + i * step, [value, ratio] = logPhi(y * f), weight = exp(power * value - (0.5 * (i * step) ** 2) / s);
        mass += weight; l += weight * value; l1 += weight * y * ratio; l11 += weight * ratio ** 2; l2 -= weight * ratio * (ratio + y * f);
      }
      const d1 = l1 / mass, z = power > 0 ? (log(mass * step) - 0.5 * log(2 * PI * s)) / power : l / mass;
      return { z, d1, d2: l2 / mass + power * (l11 / mass - d1 * d1), noise: 0 };
    },
  };
  const target = (state, y) => (state.labels ? (y < 0 ? -1 : 1) : y), halfLogDet = (L) => sum(L.map((row, i) => log(row[i])));
  // One look at all data: cavities, projections, log Z_PEP, and the sites to go to next.
  function look(state, before, { tau, nu }) {
    const q = posterior(before, { tau, nu }), { mu, a } = q, { power } = state, d1 = [], next = { tau: [], nu: [] }, step = state.labels ? 0.7 : 1;
    let evidence = 0.5 * dot(q.b, q.b) - halfLogDet(q.LB), noise = 0, change = 0;
    state.y.forEach((y, n) => {
      const rho = 1 - power * tau[n] * a[n], a_cavity = a[n] / rho, m = (mu[n] - power * nu[n] * a[n]) / rho;
      const p = project[state.labels ? "labels" : "values"](target(state, y), m, max(a_cavity + before.D[n], 1e-12), state);
      evidence += p.z - 0.5 * log1pRatio(-tau[n] * a[n], power);
      evidence += (0.5 * (tau[n] * mu[n] ** 2 - 2 * nu[n] * mu[n] + power * nu[n] ** 2 * a[n])) / rho;
      next.tau.push((1 - step) * tau[n] - (step * p.d2) / (1 + power * p.d2 * a_cavity));
      next.nu.push((1 - step) * nu[n] + (step * (p.d1 - p.d2 * m)) / (1 + power * p.d2 * a_cavity));
      d1.push(p.d1); noise += p.noise;
      change = max(change, Math.abs(next.tau[n] - tau[n]), Math.abs(next.nu[n] - nu[n]));
    });
    return { ...q, tau, d1, noise, evidence, next, change };
  }
  function firstSites(state, { D }) { // those of Gaussian noise are known; others start at 0
    const tau = D.map((d) => (state.labels ? 0 : 1 / (state.noise + state.power * d)));
    return { tau, nu: tau.map((t, n) => t * state.y[n]) };
  }
  function settled(state, before = prior(state), sites = firstSites(state, before), tol = 1e-11) {
    let q = look(state, before, sites);
    for (let i = 0; state.labels && i < 200 && q.change > tol; i++) q = look(state, before, q.next);
    return q;
  }
  // The gradient of log Z for log variance, log lengthscale, log σ² and Z, where the sites are settled.
  function gradient(state, { Z, Luu, V }, q) {
    const { x, power, lengthscale } = state, e = q.tau.map((t, n) => power * (t * t * q.a[n] + q.d1[n] ** 2)), beta = solveT(q.LB, q.b);
    const g = { variance: 0.5 * state.variance * sum(e.map((one, n) => one - q.tau[n])), lengthscale: 0, noise: q.noise, Z: Z.map(() => 0) };
    const pull = (bar, i, at, both) => { // through one entry of Kuf or Kuu
      const through = bar * k(Z[i], at, state), far = (at - Z[i]) / lengthscale;
      g.variance += through; g.lengthscale += through * far * far; g.Z[i] += (both * through * far) / lengthscale;
    };
    V.forEach((v, n) => {
      const back = solveT(q.LB, solve(q.LB, v)), bar = v.map((vi, i) => q.tau[n] * (vi - back[i]) + beta[i] * q.d1[n] - e[n] * vi);
      solveT(Luu, bar).forEach((one, i) => pull(one, i, x[n], 1));
    });
    const inner = matrix(Z.length, (i, j) => q.B[max(i, j)][min(i, j)] - 2 * (i === j) + beta[i] * beta[j] - sum(V.map((v, n) => e[n] * v[i] * v[j])));
    inner.forEach((row, i) => solveT(q.LB, solve(q.LB, row.map((_, j) => (i === j) + 0))).forEach((one, j) => { row[j] += one; }));
    const half = inner.map((row) => solveT(Luu, row)), Kuu_bar = Z.map((_, j) => solveT(Luu, half.map((row) => row[j])));
    Kuu_bar.forEach((row, i) => row.forEach((one, j) => pull(-0.5 * one * (1 + (i === j) * JITTER), i, Z[j], 2)));
    return g;
  }
  // Mean and variance of f at x.
  function predict(state, { Z, Luu }, q, at) {
    const V = at.map((x) => solve(Luu, Z.map((z) => k(z, x, state)))), T = V.map((v) => solve(q.LB, v));
    return { mean: T.map((t) => dot(q.b, t)), variance: T.map((t, i) => state.variance - dot(V[i], V[i]) + dot(t, t)) };
  }
  // Bounds on the exact evidence from the inducing points, for Gaussian noise: the tight one below, Titsias' one above.
  function bounds(state, before = prior(state)) {
    const x = before.D.map((D) => D / state.noise), chi = 1 + sum(x);
    const [low, high] = [1, chi].map((times) => settled({ ...state, power: 0, noise: times * state.noise }, before));
    const logDets = halfLogDet(high.LB) - halfLogDet(low.LB) + 0.5 * x.length * log(chi);
    return [low.evidence + 0.5 * sum(x.map((one) => one - log1p(one))), high.evidence + 0.5 * (1 - 1 / chi) + logDets];
  }
  globalThis.powerEP = { prior, settled, gradient, predict, bounds, logPhi };
  if (!globalThis.document) return;

  // What one sees: panels, which turn values into places of the drawing.
  const fixed = (value, digits = 2) => value.toFixed(digits).replace("-", "−"), clamp = (value, low, high) => min(max(value, low), high);
  function panel(left, top, width, height, [x0, x1], [y0, y1], title) {
    const X = (x) => left + clamp((x - x0) / (x1 - x0), 0, 1) * width, Y = (y) => top + clamp((y1 - y) / (y1 - y0), 0, 1) * height;
    const points = (xs, ys) => xs.map((x, i) => `${X(x).toFixed(1)} ${Y(ys[i]).toFixed(1)}`).join("L");
    const path = (kind, xs, ys, end = "") => `<path class="${kind}" d="M${points(xs, ys)}${end}"/>`;
    const band = (kind, xs, low, high) => path(kind, [...xs, ...[...xs].reverse()], [...low, ...[...high].reverse()], "Z");
    const spot = (kind, x, y, name = "") => `<circle class="${kind}" ${name} cx="${X(x)}" cy="${Y(y)}"/>`;
    const level = (kind, y, words) => path(kind, [x0, x1], [y, y]) + `<text class="end" x="${X(x1) - 4}" y="${Y(y) - 4}">${words} ${fixed(y, 1)}</text>`;
    const frame = `<path class="frame" d="M${left} ${top}v${height}h${width}"/><text x="${left + 6}" y="${top + 11}">${title}</text>`;
    return { X, path, band, spot, level, frame, at: (px, py) => [x0 + ((px - left) / width) * (x1 - x0), y1 - ((py - top) / height) * (y1 - y0)] };
  }
  const GRID = range(101, 0, 6), edges = ({ mean, variance }, sign) => mean.map((m, i) => m + sign * 1.645 * sqrt(max(variance[i], 0)));
  // Data, the process beside the exact one, q(u), site variances, and the evidence at all powers.
  function drawProcess(figure, width) {
    const { state } = figure, { x, y, Z, labels } = state, before = prior(state), powers = range(labels ? 9 : 25, 0, 1);
    const visit = (power, q, first = before) => { // the sites of labels go one step on in each frame
      if (!labels) return settled({ ...state, power }, first);
      return look({ ...state, power }, first, q?.next?.tau.length === x.length ? q.next : firstSites(state, first));
    };
    const q = (figure.q = visit(state.power, figure.q)), key = JSON.stringify([x, y, state.variance, state.lengthscale, state.noise, labels && state.power]);
    if (figure.key !== key) Object.assign(figure, { key, every: prior(state, x), dense: null });
    if (!(figure.dense?.change < 1e-6)) figure.dense = visit(state.power, figure.dense, figure.every); // the exact process: all data are inducing points
    const turn = (figure.turn = (figure.turn + 1) % powers.length), same = labels && figure.strip?.length === powers.length;
    figure.strip = powers.map((power, i) => (same && i !== turn ? figure.strip[i] : visit(power, same && figure.strip[i])));
    const exact = predict(state, figure.every, figure.dense, GRID), own = (figure.own = predict(state, before, q, GRID)), u = predict(state, before, q, Z);
    const along = figure.strip.map((one) => one.evidence), limits = labels ? [] : bounds(state, before), values = [...along, ...limits, figure.dense.evidence];
    const low = min(...values), high = max(...values), wide = width > 640, W = (wide ? 0.66 * width : width) - 12, H = wide ? 300 : 230;
    const main = (figure.main = panel(1, 4, W, H, [0, 6], [-2.6, 2.6], labels ? "f and the labels" : "f and the data"));
    const below = panel(1, H + 14, W, 70, [0, 6], [0, labels ? 12 : 1.4 * (state.noise + max(...before.D))], labels ? "variance of each site" : "variance of each site, σ² + αDₙ");
    const strip = panel(...(wide ? [W + 24, 4, width - W - 26, H + 80] : [1, H + 94, W, 140]), [0, 1], [low - 1, high + 0.3 * (high - low) + 2], "evidence in nats, by power");
    const chosen = (kind, n) => `${kind === figure.kind && n === figure.n ? " chosen" : ""}" data-point="${kind} ${n}`;
    figure.svg.setAttribute("height", wide ? H + 88 : H + 238);
    figure.svg.innerHTML = main.frame + below.frame + strip.frame + main.band("exact band", GRID, edges(exact, -1), edges(exact, 1)) +
      main.band("own band", GRID, edges(own, -1), edges(own, 1)) + main.path("exact", GRID, exact.mean) + main.path("own", GRID, own.mean) +
      x.map((at, n) => below.path("site", [at, at], [0, 1 / q.tau[n]]) + (labels ? "" : below.path("noise", [at, at], [0, state.noise]))).join("") +
      Z.map((z, m) => main.path("own", [z, z], [edges(u, -1)[m], edges(u, 1)[m]]) + `<path class="inducing${chosen("Z", m)}" d="M${main.X(z)} ${H - 12}l9 16h-18z"/>`).join("") +
      x.map((at, n) => main.spot("datum" + chosen("x", n), at, target(state, y[n]))).join("") + limits.map((value, i) => strip.level("bound", value, ["lower bound", "upper bound"][i])).join("") +
      strip.level("exact", figure.dense.evidence, labels ? "all data inducing" : "exact") + strip.path("own", powers, along) + strip.spot("here", state.power, q.evidence);
    figure.words = `${Z.length} inducing point${Z.length === 1 ? "" : "s"}, power ${fixed(state.power)}: evidence ${fixed(q.evidence)} nats, ${labels ? "with all data inducing" : "exact"} ${fixed(figure.dense.evidence)}.` +
      (figure.kind ? ` Chosen: ${figure.kind === "Z" ? "inducing point" : "data point"} at ${fixed(state[figure.kind][figure.n])}.` : "");
    return labels && [q, figure.dense, ...figure.strip].some((one) => one.change > 1e-5);
  }
  // One data point: its cavity, likelihood term and site, the tilted density as an area, and the Gaussian that has its moments.
  function drawSite(figure, width) {
    const { state } = figure, { power, m, s } = state, y = target(state, state.y), p = project[state.labels ? "labels" : "values"](y, m, s, state), f = range(201, -6, 6);
    const tau = -p.d2 / (1 + power * p.d2 * s), nu = (p.d1 - p.d2 * m) / (1 + power * p.d2 * s), main = panel(1, 4, width - 12, 240, [-6, 6], [0, 1.2], "densities of f, each as high as its peak");
    const cavity = (at) => (-0.5 * (at - m) ** 2) / s, term = (at) => (state.labels ? logPhi(y * at)[0] : (-0.5 * (y - at) ** 2) / state.noise), site = (at) => nu * at - 0.5 * tau * at * at;
    const peak = (of) => { const logs = f.map(of), top = max(...logs); return logs.map((one) => exp(one - top)); };
    figure.svg.setAttribute("height", 250);
    figure.svg.innerHTML = main.frame + main.band("own band", f, f.map(() => 0), peak((at) => cavity(at) + power * term(at))) + main.path("exact", f, peak(cavity)) +
      main.path("bound", f, peak(term)) + main.path("site", f, peak(site)) + main.path("own", f, peak((at) => cavity(at) + power * site(at)));
    figure.words = `Tilted mean ${fixed(m + power * s * p.d1, 3)}, variance ${fixed(s + power * s * s * p.d2, 3)}; site precision τ = ${fixed(tau, 3)}, shift ν = ${fixed(nu, 3)}.`;
  }
  // What one does: sliders (label, ends, whether linear), buttons, keys, a pointer.
  const SLIDERS = { power: ["power α", 0, 1, true], lengthscale: ["lengthscale", 0.1, 3], noise: ["noise variance σ²", 0.005, 2], variance: ["kernel variance", 0.05, 10],
    m: ["cavity mean", -4, 4, true], s: ["cavity variance", 0.05, 10], y: ["target", -3, 3, true] };
  const slide = (name, t, [, a, b, linear] = SLIDERS[name]) => (linear ? a + (b - a) * t : a * (b / a) ** t);
  const slid = (name, value, [, a, b, linear] = SLIDERS[name]) => (linear ? (value - a) / (b - a) : log(value / a) / log(b / a));
  const BUTTONS = {
    Train: (figure) => Object.assign(figure, { steps: 40, rate: 0.1 }),
    "Values or labels": ({ state }) => { state.labels = !state.labels; },
    "Add inducing point": ({ state: { x, Z }, state }) => { const { D } = prior(state); if (Z.length < 20) Z.push(x[D.indexOf(max(...D))]); }, // where most is unexplained
    "Add data point": ({ state: { x, y } }) => { x.push(3.2); y.push(0); },
    Remove: (figure) => { // the chosen point, or the last inducing point
      const { x, y, Z } = figure.state, lists = figure.kind !== "x" ? [Z] : x.length > 1 ? [x, y] : [];
      lists.forEach((list) => list.splice(figure.kind ? figure.n : -1, 1)), choose(figure);
    },
    Reset: (figure) => Object.assign(figure, { state: structuredClone(figure.start), kind: undefined }),
  };
  const DATA = range(60, 1 / 120, 119 / 120).map((t, n) => [0.2 + 5.2 * t + 0.5 * (t > 0.55), ((n * 0.7548776662) % 1) + ((n * 0.5698402909) % 1) - 1]);
  const START = { x: DATA.map(([x]) => x), y: DATA.map(([x, e]) => Math.sin(2 * x) + 0.5 * Math.cos(4.3 * x) + 0.5 * e), power: 0.5, variance: 1, lengthscale: 0.5, noise: 0.1, labels: false };
  const FIGURES = {
    power: { draw: drawProcess, start: { ...START, Z: range(7, 0.5, 5.6) }, sliders: ["power", "lengthscale", "noise", "variance"], buttons: Object.keys(BUTTONS) },
    inducing: { draw: drawProcess, start: { ...START, Z: [3] }, sliders: ["power", "lengthscale"], buttons: ["Add inducing point", "Remove", "Reset"] },
    site: { draw: drawSite, start: { power: 0.5, m: -0.5, s: 2, y: 1.5, noise: 0.3, labels: true }, sliders: ["power", "m", "s", "y", "noise"], buttons: ["Values or labels", "Reset"] },
  };
  function train(figure) { // one step of gradient ascent, taken back and made smaller if the evidence falls
    const { state } = figure, before = prior(state), q = settled(state, before, figure.q?.next, 1e-4), g = gradient(state, before, q), step = figure.rate / Math.hypot(g.variance, g.lengthscale, g.noise, ...g.Z);
    const moved = { ...state, Z: state.Z.map((z, m) => clamp(z + step * g.Z[m], 0, 6)) };
    for (const name of ["variance", "lengthscale", "noise"]) moved[name] = clamp(state[name] * exp(step * g[name]), SLIDERS[name][1], SLIDERS[name][2]);
    const better = settled(moved, prior(moved), q.next, 1e-4).evidence > q.evidence;
    Object.assign(figure, { rate: figure.rate * (better ? 1.3 : 0.3), state: better ? moved : state });
  }
  function choose(figure, point) { const [kind, n] = point?.split(" ") ?? []; Object.assign(figure, { kind, n: +n }); }
  function mount(figure) {
    const own = FIGURES[figure.dataset.figure], slider = (name) => `<label>${SLIDERS[name][0]} <span></span><input type="range" name="${name}" min="0" max="1" step="0.005"></label>`;
    figure.innerHTML = `<svg width="100%" height="10" tabindex="0" role="${own.draw === drawSite ? "img" : "application"}" aria-label="${figure.getAttribute("aria-label")}"></svg><p role="status"></p>` +
      `<div>${own.sliders.map(slider).join("")}</div>` + own.buttons.map((name) => `<button type="button">${name}</button>`).join("");
    [...document.querySelectorAll(".cell-output")].find((one) => figure.compareDocumentPosition(one) & 4)?.replaceWith(figure); // the picture for pages without JavaScript
    const svg = figure.firstChild, still = matchMedia("(prefers-reduced-motion: reduce)");
    const ask = () => { figure.asked ||= requestAnimationFrame(() => { let busy = (figure.asked = false); do busy = figure.frame(); while (busy && still.matches); if (busy) ask(); }); };
    const move = (x, y) => { const { state, kind, n } = figure; state[kind][n] = clamp(x, 0, 6); if (kind === "x") state.y[n] = clamp(y, -2.6, 2.6); ask(); };
    Object.assign(figure, own, { svg, state: structuredClone(own.start), turn: 0, steps: 0, frame() { // draws once; whether there is more to come
      if (figure.steps-- > 0) train(figure);
      const busy = figure.draw(figure, figure.clientWidth) || figure.steps > 0;
      for (const input of figure.querySelectorAll("input")) [input.value, input.previousElementSibling.textContent] = [slid(input.name, figure.state[input.name]), fixed(figure.state[input.name])];
      clearTimeout(figure.later), (figure.later = setTimeout(() => { figure.querySelector("p").textContent = figure.words; }, 200));
      return busy;
    } });
    figure.oninput = ({ target: { name, value } }) => { figure.state[name] = slide(name, value); ask(); };
    figure.onclick = ({ target }) => { if (target.localName === "button") BUTTONS[target.textContent](figure); ask(); };
    svg.onpointerdown = ({ target, pointerId }) => { choose(figure, target.dataset.point); if (figure.kind) svg.setPointerCapture(pointerId); };
    svg.onpointermove = ({ clientX, clientY, buttons }) => { const { left, top } = svg.getBoundingClientRect(); if (buttons && figure.kind) move(...figure.main.at(clientX - left, clientY - top)); };
    svg.onkeydown = (event) => {
      const { state, kind, n } = figure, [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key] ?? [], step = { PageDown: 1, PageUp: -1 }[event.key];
      const all = [...figure.querySelectorAll("[data-point]")].map((one) => one.dataset.point), at = all.indexOf(`${kind} ${n}`);
      if (step && all.length) choose(figure, all[at < 0 ? 0 : (at + step + all.length) % all.length]);
      else if (event.key === "Delete" && kind) BUTTONS.Remove(figure);
      else if (dx !== undefined && kind) move(state[kind][n] + 0.05 * dx, state.y[n] + 0.1 * dy);
      else return;
      event.preventDefault(), ask();
    };
    new ResizeObserver(ask).observe(figure);
  }
  document.querySelectorAll("[data-figure]").forEach(mount);
})();
