// The plans side by side, all on one scale; each can be hidden.

function shownPlans() {
  return state.plans.filter((_, number) => !state.hidden.has(number));
}

// The plan that lists and peaks are of: that with the focus, or else the last of the graph.
function activePlan() {
  const painter = activePainter();
  return painter ? painter.plan : state.graph.plans[state.graph.plans.length - 1];
}

function activePainter() {
  const own = state.painters.filter((painter) => painter.graph === state.graph);
  return own.find((painter) => painter.canvas === document.activeElement) || own[own.length - 1] || null;
}

// Makes the sections of the plans that are shown.
function showPlans() {
  watching.disconnect();
  state.painters = [];
  const shown = shownPlans();
  // A plan that is not shown does not take space.
  state.frame = new Frame(shown);
  element("plans").replaceChildren(...shown.map(section));
  for (const painter of state.painters) watching.observe(painter.canvas);
  element("layout").hidden = shown.length < 2;
  offerPlans();
}

// At least one plan of the graph stays.
function togglePlan(number) {
  const hidden = new Set(state.hidden);
  if (!hidden.delete(number)) hidden.add(number);
  const staysOwn = state.plans.some((plan, other) => plan.graph === state.graph && !hidden.has(other));
  if (number >= state.plans.length || !staysOwn) return;
  state.hidden = hidden;
  showPlans();
  refreshTable();
  if (state.chosen < 0) showDetails(-1);
  repaint();
}

function offerPlans() {
  const choice = element("shown");
  choice.hidden = state.plans.length < 2;
  choice.replaceChildren(...state.plans.map((plan, number) => {
    const box = node("input", { type: "checkbox" });
    box.checked = !state.hidden.has(number);
    box.addEventListener("change", () => { togglePlan(number); box.checked = !state.hidden.has(number); });
    return node("label", { title: `Show or hide this plan ( ${number + 1} )` }, box, planName(plan));
  }));
}

// In a comparison, two plans have one label.
function planName(plan) {
  if (!state.comparison) return plan.label;
  return `${plan.label}, ${plan.graph === state.graph ? "after" : "before"}`;
}

const watching = new ResizeObserver(() => {
  fitCanvases();
  // At once: a canvas that was resized is empty.
  if (state.graph) paintNow();
});

// The drawings have the size of the smallest canvas, so that a byte is as high in each.
function fitCanvases() {
  const sizes = state.painters.map(({ canvas }) => [canvas.clientWidth, canvas.clientHeight]);
  const size = [0, 1].map((at) => Math.min(...sizes.map((both) => both[at])));
  for (const painter of state.painters) painter.resize(size);
}

// Why a map is upside down.
const TURNED = "Offset 0 is at the green line, so that what lives long is at the bottom in both maps";

function section(plan) {
  const { frame } = state;
  const first = planToCompareWith(plan);
  const largest = Math.max(...shownPlans().map((other) => other.size), 1);
  const heading = node("h2", {}, node("span", { class: "label", title: planName(plan) }, planName(plan)), node("span", { class: "bytes" }, formatBytes(plan.size)));
  if (first) {
    const change = formatChange(first.size, plan.size);
    heading.append(node("span", { class: plan.size < first.size ? "less" : "bytes" }, change));
  }
  if (plan.isTurned()) heading.append(node("span", { class: "turned note", title: TURNED }, "upside down"));
  const bar = node("i");
  bar.style.width = `${(plan.size / largest) * 100}%`;
  const canvas = node("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of memory over time", "aria-label": ariaLabel(plan) });
  const painter = new Painter(plan, frame, canvas.getContext("2d"));
  state.painters.push(painter);
  listenTo(canvas, painter);
  const room = node("div", { class: "room" }, canvas);
  room.style.minHeight = `${frame.leastHeight()}px`;
  const of = state.comparison ? node("p", { class: "note", title: plan.graph.label }, shortened(plan.graph.label, 90)) : "";
  return node("section", { class: "plan", "aria-label": `Plan of ${planName(plan)}` }, heading,
    of, node("p", { class: "note", title: plan.note }, plan.note), node("div", { class: "bar", "aria-hidden": "true" }, bar), room);
}

// The plan to compare a plan's size with: the first plan of its graph, or that of the same planner before; null if that
// is it.
function planToCompareWith(plan) {
  const { comparison } = state;
  if (!comparison) return plan === state.plans[0] ? null : state.plans[0];
  return plan.graph === comparison.before ? null : comparison.before.plans.find((other) => other.label === plan.label) || null;
}

function ariaLabel(plan) {
  const peaks = plan.buffers.filter((buffer) => buffer.peaks.length)
    .map((buffer) => `peak of ${shortened(buffer.name, 60)}: ${formatBytes(buffer.bound)} at step ${buffer.peaks[0][0]}`);
  return [`${planName(plan)}: ${formatBytes(plan.size)}`, ...peaks,
    "arrow keys move, plus and minus zoom, n and p go from tensor to tensor, Enter follows one, k goes to the peak"].join("; ");
}

