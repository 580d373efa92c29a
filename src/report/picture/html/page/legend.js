// The legend. Its entries for tensors filter them.

// The entries: { key, isThere, drawing, text }; those without a key cannot be clicked.
function legendEntries() {
  const { plans } = state;
  const spans = plans.flatMap((plan) => [...plan.tensor.keys()].map((span) => [plan, span]));
  const kinds = new Set(spans.map(([plan, span]) => plan.graph.kind(plan.tensor[span])));
  const ways = new Set(spans.map(([plan, span]) => plan.sharing[span]));
  const box = '<rect width="18" height="12" rx="2" fill="#56b4e9"/>';
  const stripes = (colour) => `<path d="M2 12L10 0M8 12L16 0" stroke="${colour}" stroke-width="1.6"/>`;
  const dots = [3, 9, 15].map((x) => `<circle cx="${x}" cy="6" r="1.4" fill="#fff"/>`).join("");
  const arrow = '<path d="M3 0V12" stroke="#fff" stroke-dasharray="2 2"/><path d="M3 1l5 5l-5 5z" fill="#fff"/>';
  const line = (path, colour, more = "") => `<path d="${path}" stroke="${colour}" stroke-width="1.7"${more}/>`;
  const entries = KINDS.map((kind, index) => ({
    key: `kind ${index}`, isThere: kinds.has(index), drawing: `<rect width="18" height="12" rx="2" fill="${kind.colour}"/>`, text: kind.name,
  }));
  const way = (number, drawing, text) => ({ key: `way ${number}`, isThere: ways.has(number), drawing, text });
  const fixed = (drawing, text, isThere = true) => ({ key: "", isThere, drawing, text });
  return [...entries,
    way(SHARING.IN_PLACE, box + arrow, "computed in place"),
    way(SHARING.INSIDE, box + stripes("#fff"), "computed inside a later result"),
    fixed(stripes("currentColor"), "reserved for that result", ways.has(SHARING.KEPT)),
    { key: "retained", isThere: spans.some(([plan, span]) => plan.retained[span] === 1), drawing: box + dots, text: "retained for the program" },
    fixed('<rect y="2" width="18" height="10" fill="var(--live)"/>', "live bytes"),
    fixed(line("M0 6H18", "currentColor", ' stroke-dasharray="5 3"'), "lower bound"),
    fixed(line("M0 6H18", "var(--less)"), "buffer size"),
    fixed(line("M9 0V12", "var(--peak)", ' stroke-dasharray="3 2"'), "peak"),
  ].filter(({ isThere }) => isThere);
}

function showLegend() {
  const items = legendEntries().map(({ key, drawing, text }) => {
    const entry = key ? button("", () => toggleFilter(key), { "data-key": key, "aria-pressed": "false", title: "Show only these" }) : node("span");
    // Only fixed shapes and colours, no text of the graph.
    entry.innerHTML = `<svg viewBox="0 0 18 12" aria-hidden="true">${drawing}</svg>`;
    entry.append(text);
    return node("li", {}, entry);
  });
  const all = button("Show all", () => setFilter([]), { id: "show-all", class: "link" });
  all.hidden = true;
  element("legend").replaceChildren(...items, node("li", {}, all));
}

