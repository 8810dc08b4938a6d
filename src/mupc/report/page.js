"use strict";
/* The switch between light and dark, tables that show only what differs, and the place in the list of contents. */
(() => {
  const root = document.documentElement, button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("mupc-theme"); } catch { return null; } };

  function apply(theme) {
    const dark = (theme ?? (system.matches ? "dark" : "light")) === "dark";
    if (theme) root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(dark));
    button.querySelector(".label").textContent = dark ? "Light" : "Dark";
  }

  button.addEventListener("click", () => {
    const next = button.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    try { localStorage.setItem("mupc-theme", next); } catch { /* a page without storage forgets it */ }
    apply(next);
  });
  system.addEventListener("change", () => root.dataset.theme || apply(null));
  apply(stored());

  document.querySelectorAll("table.foldable").forEach((table) => {
    const fold = document.createElement("button");
    fold.type = "button";
    fold.className = "fold";
    const set = (folded) => {
      table.classList.toggle("folded", folded);
      fold.textContent = folded ? "Show all settings" : "Show only what differs";
      fold.setAttribute("aria-pressed", String(folded));
    };
    fold.addEventListener("click", () => set(!table.classList.contains("folded")));
    table.parentElement.before(fold);
    set(table.querySelector(".marked") !== null);
  });

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
    const link = links.get(target.id);
    if (!link || !isIntersecting) return;
    links.forEach((other) => other.removeAttribute("aria-current"));
    link.setAttribute("aria-current", "true");
  }), { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
})();
