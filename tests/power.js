// What `test_power.py` does to a figure that moves, and what the figure then shows.
async function setStates(states) {
  const figure = document.querySelector(".moving"), found = [];
  for (const state of states) {
    Object.assign(figure.state, state);
    for (let i = 0; i < 2000 && figure.frame(); i++);
    for (let i = 0; i < 40; i++) figure.frame();
    const { x, y } = figure.state, before = powerEP.prior(figure.state), limits = state.labels ? null : powerEP.bounds(figure.state, before);
    found.push({ x, y, evidence: figure.q.evidence, ...figure.own, limits, gradient: powerEP.gradient(figure.state, before, figure.q), exact: figure.dense.evidence });
  }
  return found;
}

async function use() {
  const figure = document.querySelector(".moving"), svg = figure.querySelector("svg"), said = {};
  const press = (key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const button = (words) => [...figure.querySelectorAll("button")].find((one) => one.textContent === words).click();
  const pointer = (type, target, x, y) => target.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, buttons: 1, pointerId: 1, bubbles: true }));
  svg.setPointerCapture = () => {};
  for (let i = 0; i < 100 && !figure.querySelector("p").textContent; i++) await wait(100);
  said.picture = document.querySelectorAll("img").length;
  said.words = figure.querySelector("p").textContent;
  said.Z = [...figure.state.Z];
  press("PageDown"); press("ArrowRight");
  said.byKey = [...figure.state.Z];
  press("Delete");
  said.afterDelete = figure.state.Z.length;
  button("Add inducing point"); button("Add data point");
  said.added = [figure.state.Z.length, figure.state.x.length];
  figure.frame();
  const mark = svg.querySelector('[data-point="x 10"]'), box = mark.getBoundingClientRect(), before = figure.state.y[10];
  pointer("pointerdown", mark, box.x, box.y); pointer("pointermove", svg, box.x + 30, box.y - 40);
  said.dragged = [figure.state.x[10], figure.state.y[10] - before];
  button("Remove");
  said.removed = figure.state.x.length;
  const slider = figure.querySelector('[name="power"]');
  slider.value = 0.25; slider.dispatchEvent(new Event("input", { bubbles: true }));
  said.power = figure.state.power;
  button("Reset");
  said.reset = [figure.state.Z.length, figure.state.power];
  figure.frame();
  const start = figure.q.evidence;
  button("Train");
  for (let i = 0; i < 200 && figure.steps > 0; i++) await wait(100);
  while (figure.frame());
  said.gain = figure.q.evidence - start;
  button("Values or labels");
  const drawn = new Set();
  for (let i = 0; i < 30; i++) { await new Promise(requestAnimationFrame); drawn.add(figure.q.evidence); }
  said.drawn = drawn.size;
  while (figure.state.Z.length) button("Remove");
  figure.frame();
  said.empty = figure.q.evidence;
  said.inputs = [...figure.querySelectorAll("input")].every((one) => one.labels.length === 1);
  return said;
}

async function moveOther() {
  const figure = document.querySelector(".moving"), svg = figure.querySelector("svg");
  for (let i = 0; i < 100 && !figure.words; i++) await wait(100);
  const first = svg.innerHTML, input = figure.querySelector("input");
  input.value = 1; input.dispatchEvent(new Event("input", { bubbles: true }));
  figure.querySelector("button").click();
  figure.frame();
  return [first !== svg.innerHTML, svg.querySelectorAll("path").length, /NaN|undefined/.test(svg.innerHTML + figure.words), figure.words];
}
