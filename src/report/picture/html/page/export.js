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

