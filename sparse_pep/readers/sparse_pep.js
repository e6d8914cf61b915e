// Predictions of a model that `model.export(path)` of the Python package sparse_pep wrote, in a browser or in Node, without anything else:
//   const model = sparsePEP(JSON.parse(text));
//   model.predict([20.5, 3.1])         values: {mean, std}; labels: {label, probability}, that of the second label
//   model.interval([20.5, 3.1], 0.9)   the ends of the interval that holds a value with this probability
//   model.f([20.5, 3.1])               mean and variance of the latent function, in the units of the model
// Inputs are numbers in the order of `model.names`, or an object by name; of a table with categories or gaps always an object of its cells.
(function () {
  const dot = (a, b) => a.reduce((total, value, i) => total + value * b[i], 0);

  // Covariances of x and z, and the variance at x, by the name of the kernel.
  function columns({ active_dims: dims }, x) { return dims ? dims.map((d) => x[d]) : x; }
  const each = (value, d) => (Array.isArray(value) ? value[d] : value);
  function distance(kernel, x, z) {
    const a = columns(kernel, x), b = columns(kernel, z);
    return Math.hypot(...a.map((value, d) => (value - b[d]) / each(kernel.lengthscale, d)));
  }
  const stationary = (profile) => (kernel, x, z) => kernel.variance * profile(distance(kernel, x, z), kernel);
  const KERNELS = {
    SquaredExponential: stationary((r) => Math.exp(-0.5 * r * r)),
    Matern12: stationary((r) => Math.exp(-r)),
    Matern32: stationary((r) => (1 + Math.sqrt(3) * r) * Math.exp(-Math.sqrt(3) * r)),
    Matern52: stationary((r) => (1 + Math.sqrt(5) * r + (5 / 3) * r * r) * Math.exp(-Math.sqrt(5) * r)),
    RationalQuadratic: stationary((r, { shape }) => Math.exp(-shape * Math.log1p((0.5 * r * r) / shape))),
    Periodic(kernel, x, z) {
      const a = columns(kernel, x), b = columns(kernel, z);
      const sines = a.map((value, d) => Math.sin((Math.PI * (value - b[d])) / kernel.period) / each(kernel.lengthscale, d));
      return kernel.variance * Math.exp(-2 * dot(sines, sines));
    },
    Categorical(kernel, x, z) {
      const b = columns(kernel, z);
      return kernel.variance * (columns(kernel, x).every((value, d) => value === b[d]) ? 1 : kernel.correlation);
    },
    Linear(kernel, x, z) {
      const b = columns(kernel, z);
      return columns(kernel, x).reduce((total, value, d) => total + each(kernel.variance, d) * value * b[d], 0);
    },
    Constant: (kernel) => kernel.variance,
    White: (kernel, x, z) => (x === z ? kernel.variance : 0),
    Sum: (kernel, x, z) => kernel.kernels.reduce((total, part) => total + covariance(part, x, z), 0),
    Product: (kernel, x, z) => kernel.kernels.reduce((total, part) => total * covariance(part, x, z), 1),
  };
  function covariance(kernel, x, z) { return KERNELS[kernel.kind](kernel, x, z); }

  // Φ(−t)/φ(t) for t ≥ 0: a series, and in the tail a continued fraction.
  function mills(t) {
    if (t < 3) {
      let term = t, series = t;
      for (let n = 3; term > 1e-17 * series; n += 2) series += term *= (t * t) / n;
      return 0.5 * Math.sqrt(2 * Math.PI) * Math.exp(0.5 * t * t) - series;
    }
    let fraction = 0;
    for (let n = Math.ceil(6 + 450 / (t * t)); n > 0; n--) fraction = n / (t + fraction);
    return 1 / (t + fraction);
  }
  const density = (t) => Math.exp(-0.5 * t * t) / Math.sqrt(2 * Math.PI);
  const Phi = (t) => (t < 0 ? mills(-t) * density(t) : 1 - mills(t) * density(t));
  function upperQuantile(p) { // t with Φ(−t) = p ≤ ½, by Newton's method for the logarithm
    let t = 0;
    for (let i = 0; i < 60; i++) {
      const step = (Math.log(mills(t) * density(t)) - Math.log(p)) * mills(t);
      t += step;
      if (Math.abs(step) < 1e-15 * (1 + t)) break;
    }
    return t;
  }
  // The probability of the second label for f ~ N(mean, variance).
  const PROBABILITIES = {
    probit: (mean, variance) => Phi(mean / Math.sqrt(1 + variance)),
    logit(mean, variance) { // the trapezoid rule
      const std = Math.sqrt(variance), step = Math.min(0.5, 0.5 * std), last = Math.ceil((9 * std) / step);
      let total = 0;
      for (let i = -last; i <= last; i++) total += density((i * step) / std) / (1 + Math.exp(-mean - i * step));
      return std > 0 ? (total * step) / std : 1 / (1 + Math.exp(-mean));
    },
  };

  // The cells of a row of a table as numbers.
  function encode(columns, row) {
    return columns.flatMap(({ name, kind, levels, pooled, gaps, fill, spread }) => {
      const cell = row[name], empty = cell === undefined || cell === null || cell === "" || Number.isNaN(cell);
      if (empty && spread) throw new Error(`${name} is empty: the mean would stand for it, and its variance is not in the file; give it a value`);
      const mark = gaps ? [empty ? 1 : 0] : [];
      if (kind === "number") return [empty ? fill : Number(cell), ...mark];
      const ones = levels.map((level) => (!empty && level === String(cell) ? 1 : 0)), other = !ones.includes(1) && !(empty && gaps);
      return [...ones, ...(pooled ? [other ? 1 : 0] : []), ...mark];
    });
  }

  globalThis.sparsePEP = function (file) {
    if (file.format !== "sparse_pep export" || file.version !== 1) throw new Error("this is no model that sparse_pep exported, or one of another version");
    const { inputs, kernel, centres, weights, factor, mean, likelihood, target } = file;
    function numbers(x) {
      const plain = inputs.columns ? encode(inputs.columns, x) : Array.isArray(x) ? x : inputs.names.map((name) => x[name]);
      if (plain.length !== inputs.mean.length || !plain.every(Number.isFinite)) throw new Error(`the model needs ${inputs.mean.length} numbers: ${inputs.names.join(", ")}`);
      return plain.map((value, d) => (value - inputs.mean[d]) / inputs.scale[d]);
    }
    function f(x) {
      const at = numbers(x), k = centres.map((z) => covariance(kernel, at, z));
      let variance = covariance(kernel, at, at);
      factor.forEach((row, i) => { variance -= row.reduce((total, value, j) => total + value * k[i + j], 0) ** 2; });
      return { mean: mean.constant + dot(mean.slope, at) + dot(weights, k), variance: Math.max(variance, 0) };
    }
    function predict(x) {
      const { mean: m, variance } = f(x);
      if (target.classes) {
        const probability = PROBABILITIES[likelihood.kind](m, variance);
        return { label: target.classes[m > 0 ? 1 : 0], probability };
      }
      return { mean: target.mean + target.scale * m, std: target.scale * Math.sqrt(variance + likelihood.noise_variance) };
    }
    function interval(x, level) {
      const { mean: m, std } = predict(x), half = std * upperQuantile((1 - level) / 2);
      return [m - half, m + half];
    }
    return { names: inputs.names, classes: target.classes, f, predict, interval };
  };
})();
