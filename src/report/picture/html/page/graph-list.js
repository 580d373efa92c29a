// The list of graphs, with a filter, and the list of what to compare with.

function graphLabel({ raw }, index) {
  const size = Math.max(...raw.plans.map((plan) => plan.size), 0);
  return `${shortened(raw.label, 90)} (${formatBytes(size)})${GRAPHS.length > 9 ? `, ${index + 1} of ${GRAPHS.length}` : ""}`;
}

function offerGraphs() {
  element("graphs").hidden = GRAPHS.length < 2;
  filterGraphs("");
  const others = GRAPHS.map((entry, index) => node("option", { value: String(index) }, graphLabel(entry, index)));
  element("other").replaceChildren(node("option", { value: "-1" }, "nothing"), ...others);
}

// Offers the graphs whose labels have all words. The graph that is shown stays selected, but is not offered if its
// label lacks a word.
function filterGraphs(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hasWords = ({ raw }) => words.every((word) => raw.label.toLowerCase().includes(word));
  let count = 0;
  const options = GRAPHS.map((entry, index) => {
    const isOffered = hasWords(entry);
    count += isOffered ? 1 : 0;
    if (!isOffered && index !== state.index) return null;
    return node("option", { value: String(index), ...(isOffered ? {} : { hidden: "" }) }, graphLabel(entry, index));
  });
  element("graph").replaceChildren(...options.filter(Boolean));
  element("graph").value = String(state.index);
  element("graph-count").textContent = words.length ? `${count} of ${GRAPHS.length}` : "";
}

// Shows the first graph that the filter offers.
function showFiltered() {
  const first = element("graph").querySelector("option:not([hidden])");
  if (first) showGraph(Number(first.value));
}

