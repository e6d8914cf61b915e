// Sparse Power EP on a line, in the letters of the pages; `moving.js` draws it and moves it.
// A state has x, y, Z, power, variance, lengthscale, noise, and labels instead of values or not.
(() => {
  const { abs, ceil, exp, log, log1p, max, min, PI, sqrt } = Math;
  const JITTER = 1e-8;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const log1pRatio = (t, power) => (power > 0 ? log1p(power * t) / power : t);
  function vector(n, entry) {
    const x = [];
    for (let i = 0; i < n; i++) x.push(entry(i));
    return x;
  }
  const lower = (n, entry) => vector(n, (i) => vector(i + 1, (j) => entry(i, j)));
  const range = (n, a, b) => vector(n, (i) => a + ((b - a) * i) / (n - 1));
  function dot(a, b) {
    let total = 0;
    for (let i = 0; i < b.length; i++) total += a[i] * b[i];
    return total;
  }
  // L⁻¹b, and L of a symmetric matrix: row i of both has i + 1 entries.
  function solve(L, b) {
    const x = [];
    for (let i = 0; i < b.length; i++) x.push((b[i] - dot(L[i], x)) / L[i][i]);
    return x;
  }
  function cholesky(A) {
    const L = [];
    A.forEach((a, i) => {
      const row = solve(L, a.slice(0, i));
      L.push([...row, sqrt(a[i] - dot(row, row))]);
    });
    return L;
  }

  // The prior: Luu, V = Luu⁻¹Kuf as columns and as rows, and what u leaves unexplained, Dₙ.
  const k = (a, b, { variance, lengthscale: l }) => variance * exp(-0.5 * ((a - b) / l) ** 2);
  const columns = (state, Z, Luu, x) =>
    x.map((at) => solve(Luu, vector(Z.length, (i) => k(Z[i], at, state))));
  function prior(state, Z = state.Z) {
    const jitter = JITTER * state.variance;
    const Luu = cholesky(lower(Z.length, (i, j) => k(Z[i], Z[j], state) + (i === j) * jitter));
    const V = columns(state, Z, Luu, state.x);
    const rows = Z.map((_, i) => V.map((v) => v[i]));
    return { Z, Luu, V, rows, D: V.map((v) => max(state.variance - dot(v, v), 0)) };
  }
  // q(u): B = I + V diag(τ) Vᵀ, its factor LB, and b = LB⁻¹Vν; mean and variance of wᵀu.
  function posterior({ rows }, { tau, nu }) {
    const scaled = rows.map((row) => row.map((v, n) => tau[n] * v));
    const B = lower(rows.length, (i, j) => dot(scaled[i], rows[j]) + (i === j));
    const LB = cholesky(B);
    return { LB, b: solve(LB, rows.map((row) => dot(row, nu))) };
  }
  function moments({ LB, b }, V) {
    const T = V.map((v) => solve(LB, v));
    return { mu: T.map((t) => dot(b, t)), a: T.map((t) => dot(t, t)) };
  }
  // log Φ(f) and its slope φ/Φ, by Φ(−f)/φ(f) = f ∫ N(t; 0, 1)/(t² + f²) dt for f > 0: midpoints,
  // and the pole that they miss.
  const NODES = range(13, 0.35, 8.75).map((t) => [t * t, (1.4 * exp(-0.5 * t * t)) / sqrt(2 * PI)]);
  function logPhi(f) {
    const density = exp(-0.5 * f * f) / sqrt(2 * PI);
    const pole = f * f < 64 ? 1 / density / (1 + exp((2 * PI * abs(f)) / 0.7)) : 0;
    const upper = NODES.reduce((total, [tt, w]) => total + (w * abs(f)) / (tt + f * f), pole);
    if (f < 0) return [log(upper) - 0.5 * f * f - 0.5 * log(2 * PI), 1 / upper];
    return [log1p(-upper * density), density / (1 - upper * density)];
  }
  // z = log E[p^α]/α under the cavity N(m, s) of f, with its derivatives d₁ and d₂ for m.
  function projectValue({ power, noise }, y, m, s) {
    const total = noise + power * s;
    const r = y - m;
    const z = -0.5 * (log(2 * PI * noise) + log1pRatio(s / noise, power) + (r * r) / total);
    return { z, d1: r / total, d2: -1 / total };
  }
  function projectLabel({ power }, y, m, s) {
    const step = min(0.5, sqrt(s) / 1.4);
    const last = step * ceil((9 * sqrt(s)) / step);
    const f = range(1 + (2 * last) / step, m - last, m + last);
    const terms = f.map((at) => logPhi(y * at));
    const w = f.map((at, i) => exp(power * terms[i][0] - (0.5 * (at - m) ** 2) / s));
    const mass = sum(w);
    const mean = (values) => dot(values, w) / mass;
    const slope = terms.map(([, ratio]) => y * ratio);
    const d1 = mean(slope);
    const spread = mean(slope.map((one) => (one - d1) ** 2));
    const d2 = mean(slope.map((one, i) => -one * (one + f[i]))) + power * spread;
    const whole = (mass * step) / sqrt(2 * PI * s);
    return { z: power > 0 ? log(whole) / power : mean(terms.map(([l]) => l)), d1, d2 };
  }
  const target = ({ labels }, y) => (labels ? (y < 0 ? -1 : 1) : y);
  const project = (state, y, m, s) =>
    (state.labels ? projectLabel : projectValue)(state, target(state, y), m, s);
  // The site that takes the projection's place beside a cavity N(m, a) of wᵀu.
  function update({ d1, d2 }, m, a, power) {
    const rho = 1 + power * d2 * a;
    return { tau: -d2 / rho, nu: (d1 - d2 * m) / rho };
  }
  // One look at all data: deletions, projections, updates, and log Z_PEP.
  function look(state, before, sites, projection = project) {
    const { power, labels } = state;
    const q = posterior(before, sites);
    const { mu, a } = moments(q, before.V);
    const eta = labels ? 0.7 : 1;
    const next = { tau: [], nu: [] };
    const tilted = [];
    let evidence = 0.5 * dot(q.b, q.b) - sum(q.LB.map((row, i) => log(row[i])));
    let change = 0;
    state.y.forEach((y, n) => {
      const [tau, nu] = [sites.tau[n], sites.nu[n]];
      const rho = 1 - power * tau * a[n];
      const m = (mu[n] - power * nu * a[n]) / rho;
      const s = max(a[n] / rho + before.D[n], 1e-12);
      const found = projection(state, y, m, s, n);
      const site = update(found, m, a[n] / rho, power);
      evidence += found.z - 0.5 * log1pRatio(-tau * a[n], power);
      evidence += (0.5 * (tau * mu[n] ** 2 - 2 * nu * mu[n] + power * nu * nu * a[n])) / rho;
      tilted.push({ m, s, ...found });
      next.tau.push(tau + eta * (site.tau - tau));
      next.nu.push(nu + eta * (site.nu - nu));
      change = max(change, abs(site.tau - tau), abs(site.nu - nu));
    });
    return { ...q, tau: sites.tau, evidence, next, change, tilted };
  }
  // Look until the sites stay: twice with values, from any sites.
  function settled(state, before, q, looks = 200, tol = 1e-11) {
    const zero = state.x.map(() => 0);
    q = q?.next.tau.length === zero.length ? q : { next: { tau: zero, nu: zero } };
    do q = look(state, before, q.next);
    while (--looks && q.change > tol);
    return q;
  }
  // The slopes of log Z for log variance, log lengthscale, log σ² and Z, by central differences
  // with the sites held: where they are settled, log Z does not depend on them. The projections of
  // labels take long, so z is the line through what it was, with ∂z/∂s = (d₂ + αd₁²)/2.
  function gradient(state, q, step = 1e-5) {
    function near({ power }, y, m, s, n) {
      const { z, d1, d2, ...cavity } = q.tilted[n];
      const slope = 0.5 * (d2 + power * d1 * d1);
      return { z: z + d1 * (m - cavity.m) + slope * (s - cavity.s), d1, d2 };
    }
    function at(change) {
      const moved = { ...state, ...change };
      return look(moved, prior(moved), q.next, state.labels ? near : project).evidence;
    }
    const slope = (change) => (at(change(step)) - at(change(-step))) / (2 * step);
    const names = ["variance", "lengthscale", "noise"];
    const slopes = names.map((name) => slope((h) => ({ [name]: state[name] * exp(h) })));
    const Z = state.Z.map((z, m) => slope((h) => ({ Z: state.Z.with(m, z + h) })));
    return { variance: slopes[0], lengthscale: slopes[1], noise: slopes[2], Z };
  }
  // Mean and variance of f at x.
  function predict(state, { Z, Luu }, q, x) {
    const V = columns(state, Z, Luu, x);
    const { mu, a } = moments(q, V);
    return { mean: mu, variance: V.map((v, i) => state.variance - dot(v, v) + a[i]) };
  }
  // Bounds on the exact evidence for Gaussian noise: the tight one below, Titsias' one above.
  function bounds(state, before) {
    const x = before.D.map((D) => D / state.noise);
    const chi = 1 + sum(x);
    const at = (noise) => settled({ ...state, power: 0, noise }, before, null, 2);
    const [low, high] = [at(state.noise), at(chi * state.noise)];
    const logDet = ({ LB }) => sum(LB.map((row, i) => log(row[i])));
    const below = low.evidence + 0.5 * sum(x.map((one) => one - log1p(one)));
    const rest = 0.5 * (1 - 1 / chi + x.length * log(chi));
    return [below, high.evidence + rest + logDet(high) - logDet(low)];
  }
  globalThis.powerEP = { prior, settled, gradient, predict, bounds, target, project, update };
  Object.assign(powerEP, { range, logPhi });
})();
