// A button for the scheme, buttons that copy code, and search. The index is a script, not a fetched file, so that it loads from
// file:// too.
(function () {
  "use strict";
  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  document.querySelector(".scheme").addEventListener("click", () => {
    const scheme = getComputedStyle(document.documentElement).colorScheme;
    const dark = scheme === "light dark" ? matchMedia("(prefers-color-scheme: dark)").matches : scheme === "dark";
    const next = dark ? "light" : "dark";
    document.body.className = "quarto-" + next;
    try { localStorage.scheme = next; } catch { /* a browser may keep nothing */ }
  });
  for (const code of document.querySelectorAll("div.sourceCode:has(> .python, > .bash):not(:has(.signature))")) {
    const button = make("button", { className: "copy", type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    code.append(button);
  }

  const root = document.currentScript.dataset.root, input = document.getElementById("_search"), box = document.getElementById("_results");
  let loading = null;
  const load = () => (loading ??= new Promise((onload, onerror) => document.head.append(make("script", { src: root + "search-index.js", onload, onerror }))));

  // Every word must occur. A word in the heading counts most, at its start more; the name of a method as a name does.
  // Prose counts more than code. Of places that count the same the reference comes first.
  function score(entry, words) {
    const heading = entry.heading.toLowerCase(), text = entry.text.toLowerCase();
    let total = entry.href.startsWith("reference/") ? 0.5 : 0;
    for (const word of words) {
      const at = heading.indexOf(word);
      if (at >= 0) total += heading === word ? 100 : heading.endsWith("." + word) ? 60 : at === 0 ? 30 : 20;
      else if (text.includes(word)) total += 1 + Math.min(text.split(word).length, 6);
      else if (entry.title.toLowerCase().includes(word)) total += 1;
      else if (entry.code.toLowerCase().includes(word)) total += 0.1;
      else return 0;
    }
    return total;
  }

  // The text around the first word found, with the words marked.
  function excerpt(text, words) {
    const pattern = new RegExp("(" + words.map((w) => w.replace(/[^\w\s]/g, "\\$&")).join("|") + ")", "i");
    const from = Math.max(0, text.search(pattern) - 40);
    const cut = (from ? "…" : "") + text.slice(from, from + 150) + (from + 150 < text.length ? "…" : "");
    return make("p", {}, ...cut.split(pattern).map((part, i) => (i % 2 ? make("mark", {}, part) : part)));
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    box.hidden = !words.length;
    if (!words.length) return;
    const scored = window.searchIndex.map((entry) => [score(entry, words), entry]);
    const hits = scored.filter(([points]) => points > 0).sort((a, b) => b[0] - a[0]);
    const said = hits.length ? hits.length + (hits.length === 1 ? " place" : " places") : "Nothing found.";
    box.replaceChildren(make("p", { className: "status", role: "status" }, said), ...hits.slice(0, 20).map(([, { href, heading, title, text, code }]) =>
      make("a", { href: root + href }, make("strong", {}, heading), make("small", {}, title), excerpt(text + " " + code, words))));
  }

  input.addEventListener("focus", load);
  input.addEventListener("input", () => load().then(show));
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!box.hidden) box.querySelector("a")?.click();
  });
  document.addEventListener("click", (event) => { if (!input.form.contains(event.target) || box.contains(event.target)) box.hidden = true; });
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") box.hidden = true; });
})();
