// What one sees of `power.js`, in the units of the data, and does to it. The page spells out the
// form, with drawings, sliders and buttons; it shows where there is JavaScript.
(() => {
  const { prior, settled, gradient, predict, bounds, target, project, update } = powerEP;
  const { range, logPhi } = powerEP;
  const { cos, exp, hypot, max, min, sin, sqrt } = Math;
  const clamp = (value, low, high) => min(max(value, low), high);
  const said = (value) => value.toFixed(2).replace("-", "−");
  const GRID = range(101, 0, 6);
  const POWERS = range(9, 0, 1).map((root) => root ** 2); // more where the evidence is steep
  const TOP = 2.6;

  const line = (xs, ys) => `M${xs.map((x, i) => `${x} ${ys[i]}`).join("L")}`;
  const bars = (xs, low, high) => xs.map((x, i) => `M${x} ${low[i]}V${high[i]}`).join("");
  const dots = (places) => places.map(([x, y]) => `M${x} ${y}h0`).join("");
  const edge = (f, z) => f.mean.map((m, i) => m + z * sqrt(max(f.variance[i], 0)));
  const around = (low, high) => [...low, ...high.toReversed()];
  const band = (f) => line(around(GRID, GRID), around(edge(f, -1.645), edge(f, 1.645)));
  function draw(svg, box, paths) {
    svg.setAttribute("viewBox", box.join(" "));
    svg.innerHTML = paths.map(([kind, d]) => `<path class="${kind}" d="${d}"/>`).join("");
  }

  // The points that a hand can take: inducing points at the lower edge, then data.
  function points(state) {
    const data = state.x.map((x, n) => [x, target(state, state.y[n])]);
    return [...state.Z.map((z) => [z, -0.93 * TOP]), ...data];
  }
  // The process beside the exact one, q(u), site variances, and the evidence at all powers. The
  // sites of labels go one step in each frame.
  function drawProcess(figure) {
    const { state, chosen, svgs } = figure;
    const { Z, x, power, labels } = state;
    const before = prior(state);
    const all = prior(state, x);
    const search = (at, first, q) => settled({ ...state, power: at }, first, q, labels ? 1 : 2);
    const q = search(power, before, figure.q);
    const exact = search(power, all, figure.exact);
    const strip = POWERS.map((at, i) => search(at, before, figure.strip[i]));
    const own = predict(state, before, q, GRID);
    Object.assign(figure, { q, exact, strip, own });
    const u = predict(state, before, q, Z);
    const dense = predict(state, all, exact, GRID);
    const places = points(state);
    draw(svgs[0], [0, -TOP, 6, 2 * TOP], [
      ["exact band", band(dense)],
      ["own band", band(own)],
      ["exact", line(GRID, dense.mean)],
      ["own", line(GRID, own.mean)],
      ["summary", bars(Z, edge(u, -1.645), edge(u, 1.645))],
      ["inducing", dots(places.slice(0, Z.length))],
      ["datum", dots(places.slice(Z.length))],
      ["chosen", dots(places.filter((_, n) => n === chosen))],
      ...places.map((place, n) => [`hand" data-point="${n}`, dots([place])]),
    ]);
    const sites = q.tau.map((tau) => min(1 / tau, 12));
    draw(svgs[1], [0, 0, 6, 1.2 * max(...sites)], [
      ["site", bars(x, x.map(() => 0), sites)],
      ["bound", labels ? "" : `M0 ${state.noise}H6`],
    ]);
    const limits = labels ? [] : bounds(state, before);
    const along = strip.map((one) => one.evidence);
    const levels = [...along, ...limits, exact.evidence];
    const low = min(...levels) - 1;
    draw(svgs[2], [0, low, 1, max(...levels) + 1 - low], [
      ["bound", limits.map((limit) => `M0 ${limit}H1`).join("")],
      ["exact", `M0 ${exact.evidence}H1`],
      ["own", line(POWERS, along)],
      ["here", dots([[power, q.evidence]])],
    ]);
    const bracket = limits.length ? `, bounds ${limits.map(said).join(" and ")}` : "";
    figure.words =
      `${Z.length} inducing points, power ${said(power)}: evidence ${said(q.evidence)} nats, ` +
      `${labels ? "with all data inducing" : "exact"} ${said(exact.evidence)}${bracket}.` +
      (places[chosen] ? ` Chosen: point at ${said(places[chosen][0])}.` : "");
    return labels && [q, exact, ...strip].some((one) => one.change > 1e-5);
  }
  // One data point: its cavity, likelihood term and site, the tilted density as an area, and the
  // Gaussian that has its moments, each as high as its peak.
  function drawSite(figure) {
    const { power, m, s, y, labels, noise } = figure.state;
    const found = project(figure.state, y, m, s);
    const { tau, nu } = update(found, m, s, power);
    const f = range(201, -6, 6);
    const label = target(figure.state, y);
    const cavity = f.map((at) => (-0.5 * (at - m) ** 2) / s);
    const term = f.map((at) => (labels ? logPhi(label * at)[0] : (-0.5 * (y - at) ** 2) / noise));
    const site = f.map((at) => nu * at - 0.5 * tau * at * at);
    const times = (factor) => cavity.map((one, i) => one + power * factor[i]);
    const peak = (logs) => line(f, logs.map((one) => exp(one - max(...logs))));
    draw(figure.svgs[0], [-6, 0, 12, 1.1], [
      ["own band", peak(times(term))],
      ["exact", peak(cavity)],
      ["bound", peak(term)],
      ["site", peak(site)],
      ["own", peak(times(site))],
    ]);
    const moments = `mean ${said(m + power * s * found.d1)}, variance `;
    figure.words =
      `Tilted ${moments}${said(s + power * s * s * found.d2)}; ` +
      `site precision τ = ${said(tau)}, shift ν = ${said(nu)}.`;
  }

  // One step of gradient ascent, smaller where the evidence falls; sliders stop at their ends.
  function train(figure) {
    const { state, form } = figure;
    const q = settled(state, prior(state), figure.q, 200, 1e-4);
    const g = gradient(state, q);
    figure.rate *= q.evidence < figure.trained ? 0.5 : 1.1;
    figure.trained = q.evidence;
    const step = figure.rate / hypot(g.variance, g.lengthscale, g.noise, ...g.Z);
    state.Z.forEach((z, m) => (state.Z[m] = clamp(z + step * g.Z[m], 0, 6)));
    for (const name of ["variance", "lengthscale", "noise"]) {
      form.elements[name].value = state[name] * exp(step * g[name]);
    }
  }
  const BUTTONS = {
    train: (figure) => Object.assign(figure, { steps: 40, rate: 0.1, trained: -Infinity }),
    inducing(figure) {
      const { Z, x } = figure.state;
      const { D } = prior(figure.state);
      if (Z.length < 20) Z.push(x[D.indexOf(max(...D))]); // the least explained
      figure.chosen = Z.length - 1;
    },
    datum(figure) {
      const { x, y, Z } = figure.points;
      figure.chosen = Z.length + x.push(3.2) - 1;
      y.push(0);
    },
    remove(figure) {
      const { x, y, Z } = figure.points;
      const n = figure.chosen - Z.length; // if no point is chosen, the last inducing point goes
      if (n < 0) Z.splice(figure.chosen, 1);
      else if (x.length > 1) [x, y].forEach((list) => list.splice(n, 1));
      figure.chosen = -1;
    },
    reset(figure) {
      const t = range(60, 1 / 120, 119 / 120);
      const x = t.map((one) => 0.2 + 5.2 * one + 0.5 * (one > 0.55));
      const noise = t.map((_, n) => ((n * 0.7548776662) % 1) + ((n * 0.5698402909) % 1) - 1);
      const y = x.map((at, n) => sin(2 * at) + 0.5 * (cos(4.3 * at) + noise[n]));
      const Z = JSON.parse(figure.form.dataset.points ?? "[]");
      Object.assign(figure, { points: { x, y, Z }, strip: [], chosen: -1, steps: 0 });
    },
  };
  // The chosen point goes to where `to` sends it; an inducing point has no height.
  function move({ points: { x, y, Z }, chosen }, to) {
    const n = chosen - Z.length;
    const [at, height] = n < 0 ? to(Z[chosen], 0) : to(x[n], y[n]);
    if (n < 0) Z[chosen] = clamp(at, 0, 6);
    else [x[n], y[n]] = [clamp(at, 0, 6), clamp(height, -TOP, TOP)];
  }
  const KEYS = {
    PageDown: (figure, count) => (figure.chosen = (figure.chosen + 1) % count),
    PageUp: (figure, count) => (figure.chosen = (max(figure.chosen, 0) - 1 + count) % count),
    Delete: (figure) => BUTTONS.remove(figure),
    ArrowLeft: (figure) => move(figure, (at, height) => [at - 0.05, height]),
    ArrowRight: (figure) => move(figure, (at, height) => [at + 0.05, height]),
    ArrowUp: (figure) => move(figure, (at, height) => [at, height + 0.1]),
    ArrowDown: (figure) => move(figure, (at, height) => [at, height - 0.1]),
  };

  function mount(form) {
    const svgs = form.querySelectorAll("svg");
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const figure = { form, svgs, frame };
    const count = () => figure.points.Z.length + figure.points.x.length;
    let [asked, later] = [0, 0];
    // Draws once, and returns whether there is more to come.
    function frame() {
      const values = Array.from(new FormData(form), ([name, value]) => [name, +value]);
      figure.state = { ...figure.points, ...Object.fromEntries(values) };
      if (figure.steps-- > 0) train(figure);
      const busy = (svgs.length > 1 ? drawProcess : drawSite)(figure) || figure.steps > 0;
      for (const slider of form.querySelectorAll("[type=range]")) {
        slider.previousElementSibling.textContent = said(+slider.value);
      }
      clearTimeout(later);
      later = setTimeout(() => (form.querySelector("p").textContent = figure.words), 200);
      return busy;
    }
    function ask() {
      asked ||= requestAnimationFrame(() => {
        asked = 0;
        let busy = frame();
        while (busy && still.matches) busy = frame();
        if (busy) ask();
      });
    }
    form.oninput = ask;
    form.onclick = ({ target: { name } }) => ask(BUTTONS[name]?.(figure));
    svgs[0].onpointerdown = ({ target: hand, pointerId }) => {
      figure.chosen = min(hand.dataset.point ?? -1, count() - 1);
      svgs[0].setPointerCapture(pointerId);
      ask();
    };
    svgs[0].onpointermove = ({ buttons, clientX, clientY }) => {
      if (!buttons || figure.chosen < 0) return;
      const { left, top, width, height } = svgs[0].getBoundingClientRect();
      const [right, down] = [(clientX - left) / width, (clientY - top) / height];
      move(figure, () => [6 * right, TOP * (1 - 2 * down)]);
      ask();
    };
    svgs[0].onkeydown = (event) => {
      if (!KEYS[event.key] || (figure.chosen < 0 && !event.key.startsWith("Page"))) return;
      KEYS[event.key](figure, count());
      event.preventDefault();
      ask();
    };
    BUTTONS.reset(figure);
    // the picture for pages without JavaScript
    [...document.querySelectorAll(".cell-output")]
      .find((one) => form.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING)
      ?.remove();
    form.figure = figure;
    form.hidden = false;
    frame();
    ask();
  }
  document.querySelectorAll("form.moving").forEach(mount);
})();
