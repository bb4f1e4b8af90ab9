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
