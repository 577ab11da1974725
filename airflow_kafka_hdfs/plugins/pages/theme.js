// Light or dark as Airflow is: its page around this one says so, else what it remembers, else the system.
(() => {
  const outside = (() => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // a frame of another site
    }
  })();
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  function dark() {
    if (outside && (outside.classList.contains("dark") || outside.classList.contains("light"))) {
      return outside.classList.contains("dark");
    }
    let kept = null;
    try {
      kept = localStorage.getItem("theme");
    } catch {
      // storage is switched off
    }
    return kept === "dark" || (kept !== "light" && system.matches);
  }
  function apply() {
    document.documentElement.classList.toggle("dark", dark());
    document.documentElement.classList.toggle("framed", outside !== null);
  }
  apply();
  system.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  if (outside) new MutationObserver(apply).observe(outside, { attributes: true, attributeFilter: ["class"] });
})();
