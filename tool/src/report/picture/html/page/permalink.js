// The view, the graph and the tensor in the address, so that a link or a reload shows them again.

// The address that the page wrote last: any other was entered by the reader.
let written = "";

// A tensor by its name, if no other has it, or else by its number.
function tensorKey(graph, id) {
  const { name } = graph.tensors;
  return name[id] && !/^~\d+$/.test(name[id]) && name.indexOf(name[id]) === name.lastIndexOf(name[id]) ? name[id] : `~${id}`;
}

function tensorOf(graph, key) {
  const number = /^~(\d+)$/.exec(key);
  if (number) return Number(number[1]) < graph.count ? Number(number[1]) : -1;
  return graph.tensors.name.indexOf(key);
}

function address() {
  const { view, frame, graph } = state;
  const parts = new URLSearchParams();
  const short = (number) => String(Number(number.toPrecision(8)));
  if (GRAPHS.length > 1) parts.set("graph", String(state.index + 1));
  if (GRAPHS.length > 1 && state.comparison) parts.set("before", String(GRAPHS.findIndex((entry) => entry.graph === state.comparison.before) + 1));
  if (view.x1 - view.x0 < frame.steps) parts.set("steps", `${short(view.x0)}-${short(view.x1)}`);
  if (view.y1 - view.y0 < 1) parts.set("part", `${short(view.y0)}-${short(view.y1)}`);
  if (state.pin >= 0) parts.set("at", String(state.pin));
  if (state.chosen >= 0) parts.set("tensor", tensorKey(graph, state.chosen));
  if (state.query) parts.set("find", state.query);
  if (state.filter.size) parts.set("only", [...state.filter].join(",").replaceAll(" ", "-"));
  if (state.hidden.size) parts.set("hide", [...state.hidden].map((number) => number + 1).join(","));
  if (openTable) parts.set("table", openTable);
  return parts.size ? `#${parts}` : "";
}

// Writes the address a moment later: browsers allow few changes of it a second.
function rememberView() {
  clearTimeout(rememberView.timer);
  rememberView.timer = setTimeout(writeAddress, 300);
}

function writeAddress() {
  // An address that the reader has entered is read next.
  const next = state.graph && location.hash === written ? address() : written;
  if (next === written) return;
  try {
    history.replaceState(null, "", location.href.replace(/#.*/s, "") + next);
    written = location.hash;
  } catch {
    // A page inside another page may not have its own address.
  }
}

// Shows the state in an address; missing parts are as at the start. Nonsense is ignored.
function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const whole = (name, end) => {
    const number = Number(parts.get(name));
    return Number.isInteger(number) && number >= 1 && number <= end ? number - 1 : -1;
  };
  const index = whole("graph", GRAPHS.length);
  const given = GRAPHS.length === 1 ? 0 : index;
  if (given < 0) showFirst();
  else showGraph(given, whole("before", GRAPHS.length));
  const hidden = (parts.get("hide") || "").split(",").map((number) => Number(number) - 1);
  if (parts.has("graph") || parts.has("hide")) hideOnly(hidden.filter((number) => state.plans[number]));
  const range = (name) => {
    const found = /^([\d.e-]+?)-([\d.]+(?:e-?\d+)?)$/.exec(parts.get(name) || "");
    return found && Number(found[1]) < Number(found[2]) ? [Number(found[1]), Number(found[2])] : null;
  };
  const [steps, part] = [range("steps") || [0, state.frame.steps], range("part") || [0, 1]];
  const at = Number(parts.get("at") ?? -1);
  if (Number.isInteger(at) && at >= 0 && at < state.graph.steps) state.pin = at;
  setFilter((parts.get("only") || "").split(",").map((key) => key.replace("-", " ")).filter((key) => /^(kind \d|way \d|retained)$/.test(key)));
  element("search").value = parts.get("find") || "";
  search(element("search").value);
  const id = parts.has("tensor") ? tensorOf(state.graph, parts.get("tensor")) : -1;
  choose(id);
  setView(...steps, ...part);
  const table = parts.get("table") || "";
  openTable = Object.hasOwn(TABLES, table) ? table : "";
  refreshTable();
  written = location.hash;
}

function hideOnly(numbers) {
  const staysOwn = state.plans.some((plan, number) => plan.graph === state.graph && !numbers.includes(number));
  state.hidden = new Set(staysOwn ? numbers : []);
  showPlans();
}

function copyLink() {
  writeAddress();
  return copyText(location.href, "Link");
}

