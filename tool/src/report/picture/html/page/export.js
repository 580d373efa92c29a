// A pen that writes SVG: the part of a canvas's 2D context that painters use.

const MEASURE = document.createElement("canvas").getContext("2d");

class SvgPen {
  constructor() {
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, font: SANS, textAlign: "left" });
    Object.assign(this, { parts: [], definitions: [], dash: [], path: "", moves: "", opened: 0, saved: [], patterns: new Map(), isBased: false });
  }

  // All that is painted next begins there. Only moves without scale.
  setTransform(_a, _b, _c, _d, x, y) {
    if (this.isBased) this.parts.push("</g>");
    this.parts.push(`<g transform="translate(${round(x)} ${round(y)})">`);
    this.isBased = true;
  }

  save() {
    const { fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, dash, moves, opened } = this;
    this.saved.push({ fillStyle, strokeStyle, lineWidth, globalAlpha, font, textAlign, dash, moves, opened });
  }

  restore() {
    const before = this.saved.pop();
    for (; this.opened > before.opened; this.opened -= 1) this.parts.push("</g>");
    Object.assign(this, before);
  }

  translate(x, y) { this.moves += `translate(${round(x)} ${round(y)})`; }
  rotate(angle) { this.moves += `rotate(${round((angle * 180) / Math.PI)})`; }
  setLineDash(dash) { this.dash = dash; }
  measureText(text) {
    MEASURE.font = this.font;
    return MEASURE.measureText(text);
  }

  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
  bezierCurveTo(...numbers) { this.path += `C${numbers.map(round).join(" ")}`; }
  rect(x, y, width, height) { this.path += `M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}z`; }
  // Painters draw whole circles.
  arc(x, y, radius) {
    const [r, d] = [round(radius), round(2 * radius)];
    this.path += `M${round(x - radius)} ${round(y)}a${r} ${r} 0 1 0 ${d} 0a${r} ${r} 0 1 0 ${-d} 0`;
  }

  clip() {
    const name = `c${this.definitions.length}`;
    this.definitions.push(`<clipPath id="${name}"><path d="${this.path}"/></clipPath>`);
    this.parts.push(`<g clip-path="${reference(name)}">`);
    this.opened += 1;
  }

  stroke() { if (this.path) this.write(`<path d="${this.path}"`, this.asStroke()); }
  fill() { if (this.path) this.write(`<path d="${this.path}"`, this.asFill()); }
  fillRect(x, y, width, height) { this.write(box(x, y, width, height), this.asFill()); }
  strokeRect(x, y, width, height) { this.write(box(x, y, width, height), this.asStroke()); }

  fillText(text, x, y) {
    const [, weight = "400", size, family] = /^(?:(\d+) )?([\d.]+)px (.*)$/.exec(this.font);
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const font = `font-family="${escapedText(family)}" font-size="${size}" font-weight="${weight}" text-anchor="${anchor}"`;
    this.write(`<text x="${round(x)}" y="${round(y)}" ${font}`, this.asFill(), `>${escapedText(text)}</text>`);
  }

  // The tile becomes a picture inside the file.
  createPattern(tile) {
    const picture = tile.toDataURL();
    const known = this.patterns.get(picture) || { name: `p${this.patterns.size}` };
    if (!this.patterns.has(picture)) {
      const image = `<image width="${tile.width}" height="${tile.height}" href="${picture}"/>`;
      this.definitions.push(`<pattern id="${known.name}" width="${tile.width}" height="${tile.height}" patternUnits="userSpaceOnUse">${image}</pattern>`);
      this.patterns.set(picture, known);
    }
    return known;
  }

  asFill() { return `fill="${this.colour(this.fillStyle)}"`; }
  asStroke() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(" ")}"` : "";
    return `fill="none" stroke="${this.colour(this.strokeStyle)}" stroke-width="${this.lineWidth}"${dash}`;
  }
  colour(style) { return typeof style === "string" ? style : reference(style.name); }

  write(start, paint, end = "/>") {
    const opacity = this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : "";
    const moved = this.moves ? ` transform="${this.moves}"` : "";
    this.parts.push(`${start} ${paint}${opacity}${moved}${end}`);
  }

  finish(width, height, title) {
    // An element of the page knows the name of SVG.
    const language = document.querySelector("svg").namespaceURI;
    const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
    return `<svg xmlns="${language}" ${size}>\n<title>${escapedText(title)}</title>\n<defs>${this.definitions.join("\n")}</defs>\n`
      + `${this.parts.join("\n")}\n${this.isBased ? "</g>\n" : ""}</svg>\n`;
  }
}

function box(x, y, width, height) {
  return `<rect x="${round(x)}" y="${round(y)}" width="${round(Math.max(width, 0))}" height="${round(Math.max(height, 0))}"`;
}

function round(number) {
  return Math.round(number * 100) / 100;
}

// A reference to a definition of the same picture. The page itself refers to nothing.
function reference(name) {
  return ["url", `(#${name})`].join("");
}

function escapedText(text) {
  const codes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  // XML has no characters below the space but tabs and ends of lines.
  return text.replace(/[&<>"]/g, (character) => codes[character]).replace(/[^\t\n\r\u0020-\ud7ff\ue000-\ufffd]/g, "\ufffd");
}

// Saves the visible part of the maps as PNG or SVG.

const MARGIN = 20, HEADLINE = 34, HEADING = 30, LEGEND = 26;
// Pixels of a PNG for one of the page.
const SHARPNESS = 2;

// Where everything goes: the title, the plans as on the page, and the legend.
function exportLayout() {
  const { painters } = state;
  const [width, height] = painters[0].size;
  const isBelow = painters.length > 1 && painters[1].canvas.getBoundingClientRect().top > painters[0].canvas.getBoundingClientRect().top + 20;
  const places = painters.map((_, index) => (isBelow
    ? [MARGIN, MARGIN + HEADLINE + index * (height + HEADING) + HEADING]
    : [MARGIN + index * (width + MARGIN), MARGIN + HEADLINE + HEADING]));
  const [lastX, lastY] = places[places.length - 1];
  const rows = legendRows(lastX + width - MARGIN);
  return { places, rows, width: lastX + width + MARGIN, height: lastY + height + MARGIN + rows.length * LEGEND };
}

// The kinds in the picture, as rows of [colour, text, x].
function legendRows(width) {
  const kinds = new Set(state.painters.flatMap(({ plan, graph }) => [...plan.tensor].map((tensor) => graph.kind(tensor))));
  MEASURE.font = SANS;
  const rows = [[]];
  let x = 0;
  KINDS.forEach(({ colour, name }, kind) => {
    if (!kinds.has(kind)) return;
    const wide = MEASURE.measureText(name).width + 34;
    if (x + wide > width && x > 0) {
      rows.push([]);
      x = 0;
    }
    rows[rows.length - 1].push([colour, name, x]);
    x += wide;
  });
  return rows;
}

// Paints all with a pen; `dots` are pixels of the pen for one of the page.
function paintPicture(pen, layout, dots) {
  const { painters, view } = state;
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  const text = (font, colour, words, x, y) => {
    Object.assign(pen, { font: `${font} ${SANS.slice(5)}`, fillStyle: colour, textAlign: "left" });
    pen.fillText(words, x, y);
  };
  pen.fillStyle = COLOURS.page;
  pen.fillRect(0, 0, layout.width, layout.height);
  text("600 17px", COLOURS.text, shortened(element("title").textContent, Math.floor(layout.width / 10)), MARGIN, MARGIN + 16);
  layout.places.forEach(([x, y], index) => {
    const { plan } = painters[index];
    text("600 14px", COLOURS.text, `${planName(plan)}  ${formatBytes(plan.size)}`, x, y - 10);
  });
  layout.rows.forEach((row, index) => row.forEach(([colour, words, at]) => {
    const [x, y] = [MARGIN + at, layout.height - MARGIN - (layout.rows.length - 1 - index) * LEGEND];
    Object.assign(pen, { fillStyle: colour });
    pen.fillRect(x, y - 9, 16, 11);
    text("11px", COLOURS.text, words, x + 21, y);
  }));
  const marks = marksOf();
  layout.places.forEach((place, index) => {
    const { plan, frame, graph, size } = painters[index];
    const painter = new Painter(plan, frame, pen);
    // The other plans are on the canvas too.
    Object.assign(painter, { canvas: null, origin: place, size, dots });
    painter.paint(view, marksIn(graph, { ...marks, pointed: -1, step: -1 }));
  });
}

function savePng() {
  const layout = exportLayout();
  const canvas = node("canvas");
  Object.assign(canvas, { width: Math.round(layout.width * SHARPNESS), height: Math.round(layout.height * SHARPNESS) });
  paintPicture(canvas.getContext("2d"), layout, SHARPNESS);
  canvas.toBlob((blob) => saveFile(`${fileName()}.png`, blob));
}

function saveSvg() {
  const layout = exportLayout();
  const pen = new SvgPen();
  paintPicture(pen, layout, 1);
  const text = pen.finish(Math.ceil(layout.width), Math.ceil(layout.height), element("title").textContent);
  saveFile(`${fileName()}.svg`, new Blob([text], { type: "image/svg+xml" }));
}
