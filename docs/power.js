// Sparse Power EP on a line, in the letters of the pages; `moving.js` draws it and moves it.
// A state has x, y, Z, power, variance, lengthscale, noise, and labels instead of values or not.
(() => {
  const { abs, ceil, exp, log, log1p, max, min, PI, sqrt } = Math;
  const JITTER = 1e-8;
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const range = (n, a, b) => Array.from({ length: n }, (_, i) => a + ((b - a) * i) / (n - 1));
  const vector = (n, entry) => Float64Array.from({ length: n }, (_, i) => entry(i));
  const matrix = (n, entry) => [...vector(n, Number)].map((i) => vector(n, (j) => entry(i, j)));
  const log1pRatio = (t, power) => (power > 0 ? log1p(power * t) / power : t);
  function dot(a, b) {
    let total = 0;
    for (let i = 0; i < a.length; i++) total += a[i] * b[i];
    return total;
  }
  // L⁻¹b and L⁻ᵀb, where row i of L has i + 1 entries, and L of a matrix.
  function solve(L, b) {
    const x = new Float64Array(b.length);
    for (let i = 0; i < b.length; i++) x[i] = (b[i] - dot(L[i], x)) / L[i][i];
    return x;
  }
  function solveT(L, b) {
    const x = Float64Array.from(b);
    for (let i = b.length - 1; i >= 0; i--) {
      x[i] /= L[i][i];
      for (let j = 0; j < i; j++) x[j] -= L[i][j] * x[i];
    }
    return x;
  }
  function cholesky(A) {
    const L = [];
    A.forEach((a, i) => {
      const row = solve(L, a.subarray(0, i));
      L.push(Float64Array.of(...row, sqrt(a[i] - dot(row, row))));
    });
    return L;
  }

  // The prior: Luu, V = Luu⁻¹Kuf as columns and as rows, and what u leaves unexplained, Dₙ.
  const k = (a, b, { variance, lengthscale: l }) => variance * exp(-0.5 * ((a - b) / l) ** 2);
  const columns = (state, Z, Luu, x) =>
    x.map((at) => solve(Luu, vector(Z.length, (i) => k(Z[i], at, state))));
  function prior(state, Z = state.Z) {
    const jitter = JITTER * state.variance;
    const Luu = cholesky(matrix(Z.length, (i, j) => k(Z[i], Z[j], state) + (i === j) * jitter));
    const V = columns(state, Z, Luu, state.x);
    const rows = Z.map((_, i) => Float64Array.from(V, (v) => v[i]));
    return { Z, Luu, V, rows, D: V.map((v) => max(state.variance - dot(v, v), 0)) };
  }
  // q(u): B = I + V diag(τ) Vᵀ, its factor LB, b = LB⁻¹Vν, and mean μₙ and variance aₙ of wₙᵀu.
  function weighted(rows, w) {
    const scaled = rows.map((row) => row.map((v, n) => w[n] * v));
    return matrix(rows.length, (i, j) => dot(scaled[i], rows[j]));
  }
  function posterior({ V, rows }, { tau, nu }) {
    const B = weighted(rows, tau);
    B.forEach((row, i) => (row[i] += 1));
    const LB = cholesky(B);
    const b = solve(LB, rows.map((row) => dot(row, nu)));
    const T = V.map((v) => solve(LB, v));
    return { B, LB, b, mu: T.map((t) => dot(b, t)), a: T.map((t) => dot(t, t)) };
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
  // z = log E[p^α]/α under the cavity N(m, s) of f, d₁ and d₂; `noise` is ∂z for log σ².
  function projectValue({ power, noise }, y, m, s) {
    const total = noise + power * s;
    const r = y - m;
    const z = -0.5 * (log(2 * PI * noise) + log1pRatio(s / noise, power) + (r * r) / total);
    const slope = 0.5 * (s / total - 1 + noise * (r / total) ** 2);
    return { z, d1: r / total, d2: -1 / total, noise: slope };
  }
  function projectLabel({ power }, y, m, s) {
    const step = min(0.4, sqrt(s) / 2);
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
    return { z: power > 0 ? log(whole) / power : mean(terms.map(([l]) => l)), d1, d2, noise: 0 };
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
  function look(state, before, sites) {
    const q = posterior(before, sites);
    const { power, labels } = state;
    const eta = labels ? 0.7 : 1;
    const d1 = [];
    const next = { tau: [], nu: [] };
    let evidence = 0.5 * dot(q.b, q.b) - sum(q.LB.map((row, i) => log(row[i])));
    let noise = 0;
    let change = 0;
    state.y.forEach((y, n) => {
      const [tau, nu, mu, a] = [sites.tau[n], sites.nu[n], q.mu[n], q.a[n]];
      const rho = 1 - power * tau * a;
      const m = (mu - power * nu * a) / rho;
      const found = project(state, y, m, max(a / rho + before.D[n], 1e-12));
      const site = update(found, m, a / rho, power);
      evidence += found.z - 0.5 * log1pRatio(-tau * a, power);
      evidence += (0.5 * (tau * mu * mu - 2 * nu * mu + power * nu * nu * a)) / rho;
      next.tau.push(tau + eta * (site.tau - tau));
      next.nu.push(nu + eta * (site.nu - nu));
      d1.push(found.d1);
      noise += found.noise;
      change = max(change, abs(site.tau - tau), abs(site.nu - nu));
    });
    return { ...q, tau: sites.tau, d1, noise, evidence, next, change };
  }
  // Look until the sites stay: twice with values, from any sites.
  function settled(state, before, q, looks = 200, tol = 1e-11) {
    const zero = state.x.map(() => 0);
    q = q?.next.tau.length === zero.length ? q : { next: { tau: zero, nu: zero } };
    do q = look(state, before, q.next);
    while (--looks && q.change > tol);
    return q;
  }
  // The gradient of log Z for log variance, log lengthscale, log σ² and Z, at settled sites.
  function gradient(state, { Z, Luu, V, rows }, q) {
    const e = q.tau.map((tau, n) => state.power * (tau * tau * q.a[n] + q.d1[n] ** 2));
    const beta = solveT(q.LB, q.b);
    const kff_bar = 0.5 * (sum(e) - sum(q.tau));
    const g = { variance: kff_bar * state.variance, lengthscale: 0, noise: q.noise };
    g.Z = Z.map(() => 0);
    function pull(bar, i, at, both) {
      const through = bar * k(Z[i], at, state);
      const far = (at - Z[i]) / state.lengthscale;
      g.variance += through;
      g.lengthscale += through * far * far;
      g.Z[i] += (both * through * far) / state.lengthscale;
    }
    V.forEach((v, n) => {
      const Bv = solveT(q.LB, solve(q.LB, v));
      const V_bar = v.map((one, i) => q.tau[n] * (one - Bv[i]) + beta[i] * q.d1[n] - e[n] * one);
      solveT(Luu, V_bar).forEach((Kuf_bar, i) => pull(Kuf_bar, i, state.x[n], 1));
    });
    const VeV = weighted(rows, e);
    const half = q.B.map((row, i) => {
      const unit = vector(Z.length, (j) => (i === j) + 0);
      const inverse = solveT(q.LB, solve(q.LB, unit));
      const inner = (j) => row[j] - 2 * unit[j] + inverse[j] + beta[i] * beta[j] - VeV[i][j];
      return solveT(Luu, vector(Z.length, inner));
    });
    Z.forEach((z, j) => {
      const Kuu_bar = solveT(Luu, half.map((row) => row[j])).map((bar) => -0.5 * bar);
      Kuu_bar.forEach((bar, i) => pull(bar * (1 + (i === j) * JITTER), i, z, 2));
    });
    return g;
  }
  // Mean and variance of f at x.
  function predict(state, { Z, Luu }, q, x) {
    const V = columns(state, Z, Luu, x);
    const T = V.map((v) => solve(q.LB, v));
    const variance = T.map((t, i) => state.variance - dot(V[i], V[i]) + dot(t, t));
    return { mean: T.map((t) => dot(q.b, t)), variance };
  }
  // Bounds on the exact evidence for Gaussian noise: the tight one below, Titsias' one above.
  function bounds(state, before) {
    const x = before.D.map((D) => D / state.noise);
    const chi = 1 + sum(x);
    const at = (noise) => settled({ ...state, power: 0, noise }, before, null, 2);
    const [low, high] = [at(state.noise), at(chi * state.noise)];
    const logDet = ({ LB }) => sum(LB.map((row, i) => log(row[i])));
    const lower = low.evidence + 0.5 * sum(x.map((one) => one - log1p(one)));
    const rest = 0.5 * (1 - 1 / chi + x.length * log(chi));
    return [lower, high.evidence + rest + logDet(high) - logDet(low)];
  }
  globalThis.powerEP = { prior, settled, gradient, predict, bounds, target, project, update };
  Object.assign(powerEP, { range, logPhi });
})();
