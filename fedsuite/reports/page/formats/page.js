// Axes of curves fold into buttons.
for (const box of document.querySelectorAll(".choices")) {
  const panes = [...box.querySelectorAll(".choice")];
  const bar = document.createElement("div");
  bar.className = "bar";
  const show = (chosen) => panes.forEach((pane, i) => {
    pane.hidden = i !== chosen;
    bar.children[i].setAttribute("aria-pressed", String(i === chosen));
  });
  panes.forEach((pane, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = pane.dataset.choice;
    button.addEventListener("click", () => show(i));
    bar.append(button);
  });
  if (panes.length > 1) {
    box.prepend(bar);
    show(0);
  }
}

// What is folded is printed too.
const folded = () => [...document.querySelectorAll("details:not([open])")];
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = folded();
  unfolded.forEach((one) => { one.open = true; });
});
addEventListener("afterprint", () => unfolded.forEach((one) => { one.open = false; }));

// Values of all lines at the place along the horizontal axis that is nearest to the cursor.
const number = (value) => String(Number(value.toPrecision(4)));
for (const svg of document.querySelectorAll("svg[data-values]")) {
  const panels = JSON.parse(svg.dataset.values);
  const said = document.createElement("p");
  said.className = "values";
  said.hidden = true;
  svg.after(said);
  const mark = document.createElementNS(svg.namespaceURI, "line");
  mark.setAttribute("class", "cursor");
  svg.append(mark);
  const hide = () => {
    said.hidden = true;
    mark.style.display = "none";
  };
  hide();
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const panel = panels.find(({ box: b }) => at.x >= b[0] && at.x <= b[2] && at.y >= b[1] && at.y <= b[3]);
    if (!panel) { hide(); return; }
    const [a, b] = panel.x;
    const x = (at.x - a) / b;
    const away = (value) => Math.abs(value - x);
    const nearest = (xs) => xs.reduce((best, value, i) => (away(value) < away(xs[best]) ? i : best), 0);
    const found = panel.lines.map(([name, xs, ys]) => ({ name, i: nearest(xs), xs, ys }));
    const place = found.map(({ i, xs }) => xs[i]).reduce((best, value) => (away(value) < away(best) ? value : best));
    const texts = found.map(({ name, i, xs, ys }) => {
      const other = xs[i] === place ? "" : ` (at ${number(xs[i])})`;
      return `${name}: ${number(ys[i])}${other}`;
    });
    said.textContent = `${panel.names[0]} ${number(place)}: ${texts.join(", ")}`;
    said.hidden = false;
    const px = a + b * place;
    for (const [key, value] of Object.entries({ x1: px, x2: px, y1: panel.box[1], y2: panel.box[3] })) {
      mark.setAttribute(key, value);
    }
    mark.style.display = "";
  });
}
