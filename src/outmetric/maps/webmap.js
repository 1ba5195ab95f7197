// What the page starts with, and what its controls do.
const FITTED_NOTE = "Where the model puts rows whose labels it has seen: classes look better apart than they are.";
const UNSEEN_NOTE = "Where models that have not seen a row's label put it.";

const options = columns.map((column, index) => [column, index]);
for (const [column, index] of options) filtered.add(new Option(shortened(column.name), index));
if (!label()) options.unshift([{ name: "nothing" }, -1]);
for (const [column, index] of options) colour.add(new Option(shortened(column.name), index));
colour.addEventListener("change", recolour);

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  find(byId("wanted").value.trim());
});

byId("naming").hidden = solid || label()?.kind !== "text";
byId("named").addEventListener("change", nameIslands);

byId("positions").hidden = byId("seen").hidden = !places.fitted;
byId("seen").textContent = UNSEEN_NOTE;
byId("positions").addEventListener("change", ({ target }) => {
  axes = places[target.value];
  byId("seen").textContent = target.value === "fitted" ? FITTED_NOTE : UNSEEN_NOTE;
  byId("seen").classList.toggle("warning", target.value === "fitted");
  draw(true);
});

byId("filter").hidden = !columns.length;
filtered.addEventListener("change", writeControls);
byId("pick").addEventListener("click", () => pick(visibleRows()));
byId("unpick").addEventListener("click", () => pick([]));
byId("save").addEventListener("click", save);
byId("lasso").hidden = solid;

byId("placeable").textContent = placing
  ? `Drop a CSV file with the columns of the model (${listed(data.placer.columns)}) onto the page, or choose it here. It stays on this computer.`
  : data.placer?.missing ?? "New rows cannot be placed on this page: it was made without a model for them.";
byId("file").parentElement.hidden = !placing;
byId("file").addEventListener("change", ({ target }) => {
  if (target.files.length) takeFile(target.files[0]);
  target.value = ""; // the same file may come again
});
const holdsFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
document.addEventListener("dragover", (event) => {
  if (!holdsFile(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
document.addEventListener("drop", (event) => {
  document.body.classList.remove("dropping");
  if (!holdsFile(event)) return;
  event.preventDefault(); // the browser would leave the page for the file
  if (event.dataTransfer.files.length) takeFile(event.dataTransfer.files[0]);
});

plot.addEventListener("mousemove", (event) => {
  [pointer.x, pointer.y] = [event.clientX, event.clientY];
  if (!tip.hidden) place();
}, true);
plot.addEventListener("mouseleave", leave);
recolour();
writeControls();
writePicked();
new ResizeObserver(() => Plotly.Plots.resize(plot)).observe(plot);
darkness.addEventListener("change", () => {
  draw(true);
  writeLegend();
});
plot.on("plotly_hover", (event) => hover(rowOf(event)));
plot.on("plotly_unhover", leave);
plot.on("plotly_afterplot", placeIslands);
plot.on("plotly_relayouting", placeIslands);
if (solid) {
  // Here plotly tells of clicks only very close to a point, but a click means what the tip shows. A drag is no click.
  let pressed = {};
  plot.addEventListener("mousedown", (event) => { pressed = { row: hovered, x: event.clientX, y: event.clientY }; }, true);
  plot.addEventListener("click", ({ target, clientX, clientY }) => {
    const still = Math.hypot(clientX - pressed.x, clientY - pressed.y) < 4;
    if (still && pressed.row !== null && !target.closest(".modebar")) choose(pressed.row);
  });
} else {
  plot.on("plotly_click", (event) => choose(rowOf(event)));
  plot.on("plotly_selected", (event) => {
    if (!event?.selections.length) return; // plotly's echo of an outline that was taken away
    const own = event.points.filter((point) => point.curveNumber < groups.length);
    byId("selection").open = true;
    pick(own.map((point) => groups[point.curveNumber].rows[point.pointNumber]));
  });
  plot.on("plotly_deselect", () => pick([]));
}
