// Tables that are wider than their place say so.

/** Watches every `.scroll` that is or will be on the page. */
export function startWide() {
  const mark = (node) => {
    const rest = node.scrollWidth - node.clientWidth;
    if (rest <= 1) node.removeAttribute("data-wide");
    else node.dataset.wide = node.scrollLeft >= rest - 1 ? "end" : "more";
    // What scrolls must be reached by keys; what does not needs no stop.
    if (rest > 1) node.tabIndex = 0;
    else node.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) mark(target.closest(".scroll") ?? target);
  });
  const seen = new WeakSet();
  const look = () => {
    for (const node of document.querySelectorAll(".scroll")) {
      if (seen.has(node)) continue;
      seen.add(node);
      sizes.observe(node);
      for (const child of node.children) sizes.observe(child);
      node.addEventListener("scroll", () => mark(node), { passive: true });
      mark(node);
    }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();
}
