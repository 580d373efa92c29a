
// Follows a program that runs: the memory of its devices, and the graph that was planned last.

// The time between two looks, in milliseconds.
const EVERY = 1000;
// How many graphs are known, and the label of the one that was planned last.
const live = { graphs: -1, newest: null };

async function ask(what) {
  const answer = await fetch(what, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
  return answer.text();
}

async function look() {
  try {
    const told = JSON.parse(await ask("live.json"));
    element("live-state").textContent = told.state;
    // Names in it are escaped where it is written.
    element("live-devices").innerHTML = told.devices;
    if (told.graphs !== live.graphs) {
      takeGraphs(await ask("graphs.json"));
      Object.assign(live, { graphs: told.graphs, newest: told.newest });
      showNewest();
    }
    setTimeout(look, EVERY);
  } catch {
    element("live-state").textContent = "The program has ended; this was seen last.";
  }
}

// Offers the graphs of new data. The one that is shown stays as it is.
function takeGraphs(text) {
  LINES = text.split("\n");
  const known = new Map(GRAPHS.map((entry) => [entry.raw.label, entry.graph]));
  const taken = JSON.parse(LINES[0]).graphs.map((raw) => ({ raw, graph: known.get(raw.label) || null }));
  GRAPHS.splice(0, GRAPHS.length, ...taken);
  const before = state.comparison ? placeOf(state.comparison.before.label) : -1;
  if (state.graph) state.index = placeOf(state.graph.label);
  else if (GRAPHS.length) listen();
  offerGraphs();
  element("other").value = String(before);
}

function placeOf(label) {
  return GRAPHS.findIndex(({ raw }) => raw.label === label);
}

function showNewest() {
  const index = placeOf(live.newest);
  if (index >= 0 && element("follow").checked && (!state.graph || state.graph.label !== live.newest)) showGraph(index);
}

element("follow").addEventListener("change", showNewest);
// Who chooses a graph wants to see that one.
element("graphs").addEventListener("change", () => { element("follow").checked = false; });
if (!GRAPHS.length) element("title").textContent = "No graph has been planned yet";
look();
