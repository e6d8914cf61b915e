// What a page shows and how it can be used, in every page of the site: `test_browser.py` puts this into a page of its own.
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const box = (element) => element.getBoundingClientRect();

// What a page shows at the width that it has.
function measure(frame) {
  const page = frame.contentDocument, root = page.documentElement, window = frame.contentWindow;
  const folded = (e) => e.closest("details:not([open])");
  const shown = (selector) => [...page.querySelectorAll(selector)].filter((e) => !folded(e));
  const scrolls = (e) => { for (; e; e = e.parentElement) if (/auto|scroll|hidden/.test(window.getComputedStyle(e).overflowX)) return true; };
  return {
    page: frame.dataset.page, width: root.clientWidth, scroll: root.scrollWidth, height: root.scrollHeight,
    wide: [...page.querySelectorAll("main *")].filter((e) => box(e).right > root.clientWidth + 1 && !folded(e) && !scrolls(e)).map((e) => e.outerHTML.slice(0, 120)),
    broken: shown("td code").filter((e) => !e.querySelector("wbr") && e.getClientRects().length > 1).map((e) => e.textContent),
    formulas: shown("math").length,
    flat: shown("math").filter((e) => box(e).width < 1 || box(e).height < 4).map((e) => e.textContent),
    images: shown("img").map((e) => [e.getAttribute("src"), e.naturalWidth, box(e).width]),
    font: window.getComputedStyle(page.body).fontFamily,
  };
}

// What a page says outside code and formulas.
function text(frame) {
  const prose = frame.contentDocument.getElementById("_main").cloneNode(true);
  prose.querySelectorAll("code, pre, math").forEach((e) => e.remove());
  return prose.textContent;
}
// The menu opened, as a finger or a key would open it: its links are in view, and only the sections that hold this page are unfolded.
function menu(frame) {
  const page = frame.contentDocument, root = page.documentElement, side = page.querySelector("details.side");
  if (!side) return [];
  const before = side.open;
  side.open = true;
  const links = [...side.querySelectorAll("a")].filter((e) => !e.closest("details.section:not([open])"));
  const found = {
    page: frame.dataset.page, width: frame.clientWidth, closed: !before, summary: box(side.querySelector("summary")).height,
    links: links.length, out: links.filter((e) => box(e).right > root.clientWidth || box(e).height < 24).length, scroll: root.scrollWidth,
    sections: page.querySelectorAll("details.section").length,
    unfolded: [...page.querySelectorAll("details.section[open]")].map((e) => e.querySelectorAll("[aria-current]").length),
  };
  side.open = before;
  return [found];
}

// The button for the scheme pressed twice, a button that copies, and how far the menu moves when the text is scrolled.
async function use(frame) {
  const page = frame.contentDocument, inside = frame.contentWindow, button = page.querySelector(".scheme");
  if (!button) return [];
  const press = () => { button.click(); return inside.getComputedStyle(page.documentElement).colorScheme; };
  const schemes = [press(), press()], copy = page.querySelector(".copy");
  let copied = null;
  Object.defineProperty(inside.navigator, "clipboard", { value: { writeText: async (text) => { copied = text; } } });
  copy?.click();
  inside.localStorage.clear();
  page.body.className = "";
  const side = page.querySelector("details.side"), before = box(side).top;
  inside.scrollTo(0, 300);
  const moved = inside.scrollY > 200 ? box(side).top - before : 0;
  inside.scrollTo(0, 0);
  return [{ page: frame.dataset.page, schemes, copied, code: copy?.parentElement.querySelector("code").textContent ?? null, side: moved }];
}

// Which kinds of things that take the focus do not show it.
function focus(frame) {
  const page = frame.contentDocument, hidden = [];
  for (const selector of ["nav a", "main a", "summary", "#_search", ".skip", ".table-box"]) {
    const element = [...page.querySelectorAll(selector)].find((e) => box(e).width > 0 && (e.localName === "summary" || !e.closest("details:not([open])")));
    if (!element) continue;
    element.focus({ focusVisible: true });
    const style = frame.contentWindow.getComputedStyle(element);
    if (page.activeElement !== element || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) hidden.push(selector);
  }
  return hidden;
}

function numbers(colour) {
  const parts = colour.match(/[\d.]+/g).map(Number);
  return parts.length > 3 ? parts : [...parts, 1];
}
function luminance(colour) {
  const linear = colour.slice(0, 3).map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

// Text that stands out too little from what is painted behind it, as the accessibility guidelines measure it.
function faint(frame) {
  const page = frame.contentDocument, window = frame.contentWindow, seen = new Map(), grounds = new Map();
  const behind = (e) => {
    if (!e) return [255, 255, 255, 1];
    if (!grounds.has(e)) {
      const colour = numbers(window.getComputedStyle(e).backgroundColor);
      grounds.set(e, colour[3] === 1 ? colour : behind(e.parentElement));
    }
    return grounds.get(e);
  };
  for (const element of page.querySelectorAll("body :not(math *, script, style, .anchor)")) {
    if (![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !box(element).width) continue;
    const [a, b] = [numbers(window.getComputedStyle(element).color), behind(element)].map(luminance).sort((x, y) => x - y);
    const ratio = (b + 0.05) / (a + 0.05);
    const key = `${element.localName}.${element.className}`;
    if (ratio < (seen.get(key) ?? 4.5)) seen.set(key, ratio);
  }
  return [...seen];
}
async function search(frame, words) {
  const page = frame.contentDocument, input = page.getElementById("_search");
  input.focus();
  input.value = words;
  input.dispatchEvent(new Event("input"));
  for (let i = 0; i < 50 && !page.querySelector("#_results .status"); i++) await wait(50);
  const found = [...page.querySelectorAll("#_results a")].map((a) => [a.querySelector("strong").textContent, a.href]);
  const said = page.querySelector("#_results .status")?.textContent;
  page.getElementById("_results").replaceChildren();
  return { found, said };
}

// Loads a page at the width of a desk, then narrows it to that of a phone, where its menus fold.
async function visit(frame, page, result) {
  frame.dataset.page = page;
  frame.style.width = "1400px";
  const loaded = new Promise((done) => frame.addEventListener("load", done, { once: true }));
  frame.src = page;
  await loaded;
  const inside = frame.contentWindow;
  result.pages.push(measure(frame));
  result.menus.push(...menu(frame));
  if (SAMPLE.includes(page)) {
    result.used.push(...(await use(frame)));
    result.faint.push([page, faint(frame)]);
    result.unfocused.push([page, focus(frame)]);
  }
  result.prose.push([page, text(frame)]);
  result.blends.push(...[...frame.contentDocument.querySelectorAll("main img")].map((e) => inside.getComputedStyle(e).mixBlendMode));
  result.resources.push(...inside.performance.getEntriesByType("resource").map((e) => e.name));
  frame.style.width = "390px";
  for (let i = 0; i < 50 && frame.contentDocument.querySelector("details.side")?.open; i++) await new Promise(requestAnimationFrame);
  result.pages.push(measure(frame));
  result.menus.push(...menu(frame));
}

// Chromium prints the document when all of it is loaded: a second frame, which is being written until the end, puts that off.
addEventListener("DOMContentLoaded", async () => {
  const [frame, pending] = document.querySelectorAll("iframe");
  pending.contentDocument.open();
  const result = { pages: [], menus: [], used: [], faint: [], unfocused: [], prose: [], blends: [], resources: [], search: {} };
  try {
    for (const page of PAGES) await visit(frame, page, result);
    result.dark = matchMedia("(prefers-color-scheme: dark)").matches;
    result.paper = getComputedStyle(frame.contentDocument.body).backgroundColor;
    for (const words of WORDS) result.search[words] = await search(frame, words);
    document.title = JSON.stringify(result);
  } finally {
    pending.contentDocument.close();
  }
});
