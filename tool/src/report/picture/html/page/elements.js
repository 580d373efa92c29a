// Parts of the page. Names are inserted as text, never as markup.

function node(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function button(text, onClick, attributes = {}) {
  const made = node("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

// A name, and the origin of the tensor where the name has only the suffixes that ggml appends.
function nameWithOrigin(graph, id) {
  const origin = graph.origin(id);
  return origin ? `${graph.name(id)} of ${origin}` : graph.name(id);
}

// What computes a tensor, its shape, and its layer if names tell one.
function factsOf(graph, id) {
  const block = blockName(graph, id);
  const op = graph.op(id) === "NONE" ? KINDS[graph.kind(id)].name : graph.op(id);
  return [op, graph.shape(id), ...(block ? [`${bandWord(graph)} ${block}`] : [])].join(", ");
}

// A tensor that leads to its details.
function link(graph, id) {
  return button(nameWithOrigin(graph, id), () => chooseIn(graph, id), { class: "link" });
}

// Selects a tensor; one that the shown graph does not have only shows its details.
function chooseIn(graph, id) {
  const own = idFrom(graph, id);
  if (own >= 0 || id < 0) choose(own);
  else showDetails(id, graph);
}

function swatch(colour) {
  const made = node("span", { class: "swatch" });
  made.style.background = colour;
  return made;
}

// A list of tensors, which may be the first of more.
function list(title, name, graph, entries, all = entries.length) {
  if (!entries.length) return name === "sharers" ? [] : [node("h3", {}, `${title}: none`)];
  const item = ([before, id, after]) => {
    const note = (text) => (text ? [node("span", { class: "note" }, text)] : []);
    return node("li", {}, ...note(before), link(graph, id), ...note(after), node("span", { class: "facts note" }, factsOf(graph, id)));
  };
  const count = all > entries.length ? ` (${entries.length} of ${all})` : all > 1 ? ` (${all})` : "";
  return [node("h3", {}, title + count), node("ul", { class: name }, ...entries.map(item))];
}

// Gives a file to the reader.
function saveFile(name, blob) {
  const place = URL.createObjectURL(blob);
  node("a", { href: place, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(place), 10000);
}

// Part of a file's name, made of the title.
function fileName() {
  return shortened(element("title").textContent, 60).replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "memory";
}

async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Where the page may not use the clipboard itself.
    const area = node("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  notify(`${what} copied`);
}

// Shows a short message for a while.
function notify(text) {
  announce(text);
  const notice = element("notice");
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(notify.timer);
  notify.timer = setTimeout(() => { notice.hidden = true; }, 2500);
}

