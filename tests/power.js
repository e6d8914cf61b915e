// What `test_power.py` does to a figure that moves, and what the figure then shows.
async function setStates(states) {
  const { figure } = document.querySelector(".moving"), { elements } = document.querySelector(".moving"), found = [];
  const data = figure.points.filter((point) => point.length > 1);
  const grid = Array.from({ length: 101 }, (_, i) => (6 * i) / 100);
  for (const { labels, Z, ...state } of states) {
    for (const [name, value] of Object.entries(state)) elements[name].value = value;
    elements.labels.checked = labels;
    figure.points = [...data, ...Z.map((z) => [z])];
    for (let i = 0; i < 2000 && figure.frame(); i++);
    for (let i = 0; i < 40; i++) figure.frame();
    const { x, y } = figure.state, { q, exact } = figure.found, limits = labels ? null : powerEP.bounds(figure.state);
    const f = powerEP.moments(q, powerEP.prior(figure.state, grid)), gradient = powerEP.gradient(figure.state, q);
    found.push({ x, y, evidence: q.evidence, mean: f.map(({ mu }) => mu), variance: f.map(({ variance }) => variance), limits, gradient, exact: exact.evidence });
  }
  return found;
}

async function use() {
  const form = document.querySelector(".moving"), { figure } = form, svg = form.querySelector("svg"), said = {};
  const button = (words) => [...form.querySelectorAll("button")].find((one) => one.textContent === words).click();
  const pointer = (type, target, x, y) => target.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, buttons: 1, pointerId: 1, bubbles: true }));
  const count = (length) => figure.points.filter((point) => point.length === length).length;
  const slide = (name, value) => {
    form.elements[name].value = value;
    form.elements[name].dispatchEvent(new Event("input", { bubbles: true }));
    figure.frame();
  };
  svg.setPointerCapture = () => {};
  for (let i = 0; i < 100 && !form.querySelector("p").textContent; i++) await wait(100);
  said.picture = document.querySelectorAll("img").length;
  said.words = form.querySelector("p").textContent;
  said.points = structuredClone(figure.points);
  slide("point", 60);
  slide("place", 0.55);
  said.byKey = structuredClone(figure.points);
  button("Remove");
  said.afterRemove = count(1);
  button("Add inducing point"); button("Add data point");
  said.added = [count(1), count(2)];
  figure.frame();
  const n = 10, mark = svg.querySelector(`[data-point="${n}"]`), box = mark.getBoundingClientRect(), before = [...figure.points[n]];
  pointer("pointerdown", mark, box.x, box.y); pointer("pointermove", svg, box.x + 30, box.y - 40);
  said.dragged = figure.points[n].map((one, i) => one - before[i]);
  button("Remove");
  said.removed = count(2);
  slide("power", 0.25);
  said.power = figure.state.power;
  button("Reset");
  figure.frame();
  said.reset = [count(1), figure.state.power];
  const start = figure.found.q.evidence;
  button("Train");
  for (let i = 0; i < 200 && figure.steps > 0; i++) await wait(100);
  while (figure.frame());
  said.gain = figure.found.q.evidence - start;
  form.querySelector('[name="labels"]').click();
  const drawn = new Set();
  for (let i = 0; i < 30; i++) { await new Promise(requestAnimationFrame); drawn.add(figure.found.q.evidence); }
  said.drawn = drawn.size;
  for (let i = 0; i < 7; i++) button("Remove");
  figure.frame();
  said.empty = figure.found.q.evidence;
  said.inputs = [...form.querySelectorAll("input")].every((one) => one.labels.length === 1);
  return said;
}

async function moveOther() {
  const form = document.querySelector(".moving"), svg = form.querySelector("svg"), input = form.querySelector("input"), { figure } = form;
  const first = svg.innerHTML;
  form.querySelector("button").click();
  input.value = 1; input.dispatchEvent(new Event("input", { bubbles: true }));
  figure.frame();
  return [first !== svg.innerHTML, svg.querySelectorAll("path").length, /NaN|undefined/.test(svg.innerHTML + figure.words), figure.words];
}

// Whatever a hand does, quickly: what is drawn are numbers, and frames that come in time.
async function attack(clumsy) {
  const form = document.querySelector(".moving"), { figure } = form, wrong = [];
  const chance = (() => { let seed = 1; return () => (seed = (seed * 16807) % 2147483647) / 2147483647; })();
  const pick = (list) => list[Math.floor(chance() * list.length)];
  addEventListener("error", ({ message }) => wrong.push(message));
  form.setPointerCapture = () => {};
  const svg = form.querySelector("svg");
  svg.setPointerCapture = () => {};
  const pointer = (type, target) => target.dispatchEvent(new PointerEvent(type, { clientX: 2000 * chance() - 300, clientY: 1500 * chance() - 300, buttons: 1, pointerId: 1, pointerType: "touch", bubbles: true }));
  for (let i = 0; i < clumsy; i++) {
    const input = pick([...form.querySelectorAll("input")]), ends = [input.min, input.max, (+input.min + +input.max) / 2];
    if (input.type === "checkbox") input.checked = chance() < 0.5;
    else if (input.type === "range") input.value = pick(ends);
    input.dispatchEvent(new Event("input", { bubbles: true }));
    for (let j = chance() < 0.1 ? 60 : 1; j > 0; j--) pick([...form.querySelectorAll("button:not([name=restart])")])?.click();
    pointer("pointerdown", pick([svg, ...svg.querySelectorAll(".hand")]));
    pointer("pointermove", svg);
    form.style.display = i % 7 ? "" : "none";
    figure.frame();
    const drawn = [...form.querySelectorAll("svg")].map((one) => one.outerHTML).join() + figure.words;
    if (/NaN|undefined|Infinity/.test(drawn)) wrong.push([figure.words, JSON.stringify(figure.state)]);
  }
  return { wrong, most: figure.points.length };
}

// Milliseconds of the quickest tenth of frames with twenty inducing points: what remains of the
// machine's other work in them is least.
async function pace() {
  const form = document.querySelector(".moving"), { figure } = form, { elements } = form, found = {};
  const quick = (each) => {
    const times = Array.from({ length: 40 }, (_, i) => {
      each(i);
      const start = performance.now();
      figure.frame();
      return performance.now() - start;
    });
    return times.sort((a, b) => a - b)[4];
  };
  for (let i = 0; i < 13; i++) { elements.inducing.click(); figure.frame(); }
  found.points = figure.points.length;
  for (const kind of ["values", "labels"]) {
    elements.labels.checked = kind === "labels";
    for (let i = 0; i < 20; i++) figure.frame();
    found[kind + " dragged"] = quick((i) => (figure.points[10] = [1 + i / 50, i / 50]));
    found[kind + " trained"] = quick(() => (figure.steps = 10));
  }
  return found;
}
