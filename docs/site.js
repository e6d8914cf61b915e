// A button for the scheme, buttons that copy code, and search. The index is a script, not a fetched file, so that it loads from
// file:// too.
(function () {
  "use strict";
  document.querySelector(".scheme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).colorScheme;
    const now = dark === "light dark" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : dark;
    const next = now === "dark" ? "light" : "dark";
    document.body.className = "quarto-" + next;
    try { localStorage.scheme = next; } catch { /* a browser may keep nothing */ }
  });
  for (const code of document.querySelectorAll("div.sourceCode:has(> .python, > .bash):not(:has(.signature))")) {
    const button = Object.assign(document.createElement("button"), { className: "copy", type: "button", textContent: "Copy" });
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    code.append(button);
  }
  const root = document.currentScript.dataset.root;
  const input = document.getElementById("_search");
  const box = document.getElementById("_results");
  let loading = null;

  function load() {
    loading = loading || new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = root + "search-index.js";
      script.onload = done;
      script.onerror = failed;
      document.head.append(script);
    });
    return loading;
  }

  // Every word must occur. A word in the heading counts most, at its start more; the name of a method as a name does.
  // Of places that count the same the reference comes first.
  function score(entry, words) {
    const heading = entry.heading.toLowerCase();
    const text = entry.text.toLowerCase();
    let total = entry.href.startsWith("reference/") ? 0.5 : 0;
    for (const word of words) {
      const at = heading.indexOf(word);
      if (at >= 0) total += heading === word ? 100 : heading.endsWith("." + word) ? 60 : at === 0 ? 30 : 20;
      else if (text.includes(word)) total += 1 + Math.min(text.split(word).length, 6);
      else if (entry.title.toLowerCase().includes(word)) total += 1;
      else return 0;
    }
    return total;
  }

  // The text around the first word found, with the words marked.
  function excerpt(text, words) {
    const found = words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0);
    const from = Math.max(0, (found.length ? Math.min(...found) : 0) - 40);
    const cut = (from ? "…" : "") + text.slice(from, from + 150) + (from + 150 < text.length ? "…" : "");
    const p = document.createElement("p");
    const pattern = new RegExp("(" + words.map((w) => w.replace(/[^\w\s]/g, "\\$&")).join("|") + ")", "i");
    cut.split(pattern).forEach((part, i) => {
      const node = document.createElement(i % 2 ? "mark" : "span");
      node.textContent = part;
      p.append(node);
    });
    return p;
  }

  function item(entry, words) {
    const link = document.createElement("a");
    link.href = root + entry.href;
    const heading = document.createElement("strong");
    heading.textContent = entry.heading;
    const page = document.createElement("small");
    page.textContent = entry.title;
    link.append(heading, page, excerpt(entry.text, words));
    return link;
  }

  function show() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    box.hidden = !words.length;
    if (!words.length) return;
    const hits = window.searchIndex
      .map((entry) => [score(entry, words), entry])
      .filter(([points]) => points > 0)
      .sort((a, b) => b[0] - a[0]);
    const status = document.createElement("p");
    status.className = "status";
    status.setAttribute("role", "status");
    status.textContent = hits.length ? hits.length + (hits.length === 1 ? " place" : " places") : "Nothing found.";
    box.replaceChildren(status, ...hits.slice(0, 20).map(([, entry]) => item(entry, words)));
  }

  input.addEventListener("focus", load);
  input.addEventListener("input", () => load().then(show));
  input.form.addEventListener("keydown", (event) => { if (event.key === "Escape") box.hidden = true; });
  input.form.addEventListener("submit", (event) => {
    event.preventDefault();
    const first = box.querySelector("a");
    if (first && !box.hidden) first.click();
  });
  box.addEventListener("click", () => { box.hidden = true; });
  document.addEventListener("click", (event) => { if (!input.form.contains(event.target)) box.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      input.focus();
    }
  });
})();
