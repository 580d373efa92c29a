// Colours: those of operations are in the data, the others in the style sheet, for light and dark.

const KINDS = DATA.kinds.map(([name, colour, ink]) => ({ name, colour, ink }));
const NAMES = ["page", "field", "line", "text", "note", "less", "peak", "live", "accent", "mark", "raised"];
let COLOURS = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  COLOURS = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

// Stripes for reserved bytes, and for tensors inside a later result.
function stripes(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const at of [-8, 0, 8]) {
    pen.moveTo(at - 1, 9);
    pen.lineTo(at + 9, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// Dots for retained tensors.
function dots(context, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(4, 4, 1.4, 0, 2 * Math.PI);
  pen.fill();
  return context.createPattern(tile, "repeat");
}

