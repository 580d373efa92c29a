// The part of the page below the maps, which shows a table.

let openTable = "";

const TABLES = {
  peak: { title: "Live at the peak", make: peakTable },
  comparison: { title: "What grew, and what went", make: comparisonTable },
};

// Opens a table, or closes it if it is open; "" closes.
function showTable(name) {
  openTable = name === openTable || (name === "comparison" && !state.comparison) ? "" : name;
  refreshTable();
  // Not the field: the keys go on working.
  if (openTable) element("tables").querySelector(".scroll").focus({ preventScroll: true });
  rememberView();
}

function refreshTable() {
  const room = element("tables");
  element("show-table").setAttribute("aria-pressed", String(openTable === "peak"));
  element("show-comparison").setAttribute("aria-pressed", String(openTable === "comparison"));
  if (openTable === "comparison" && !state.comparison) openTable = "";
  room.hidden = !openTable;
  if (!openTable) {
    room.replaceChildren();
    return;
  }
  const { title, make } = TABLES[openTable];
  const { table, notes } = make();
  if (room.table && room.table.name === table.name) table.continueFrom(room.table);
  const isElsewhere = openTable === "peak" && !shownPlans().every((plan) => plan.buffers.every((buffer) => listedStep(plan, buffer).isPeak));
  room.replaceChildren(node("h2", {}, isElsewhere ? `Live at step ${state.pin}` : title, button("Close", () => showTable(""), { class: "link" })),
    ...notes.map((note) => node("p", { class: "note" }, note)), ...table.parts);
  room.table = table;
}

