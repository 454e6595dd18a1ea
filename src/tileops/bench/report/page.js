"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const table = find("rows");
  const rows = [...table.tBodies];
  const LEVEL = 0.97;

  const wanted = {
    "": () => true,
    slow: (data) => data.ratio !== undefined && Number(data.ratio) < LEVEL,
    fast: (data) => data.ratio !== undefined && Number(data.ratio) >= LEVEL,
    alone: (data) => data.ratio === undefined,
  };

  const filter = () => {
    const words = find("words").value.toLowerCase().split(/\s+/).filter(Boolean);
    const family = find("family").value;
    const device = find("device")?.value ?? "";
    const keep = wanted[find("which").value];
    let shown = 0;
    for (const row of rows) {
      const data = row.dataset;
      row.hidden = !(
        (family === "" || data.family === family) &&
        (device === "" || data.device === device) &&
        words.every((word) => data.text.includes(word)) &&
        keep(data)
      );
      shown += row.hidden ? 0 : 1;
    }
    find("shown").textContent = `${shown} of ${rows.length} rows`;
    for (const point of document.querySelectorAll(".point")) {
      point.classList.toggle("faded", family !== "" && point.dataset.family !== family);
    }
    count();
  };

  const count = () => {
    const plot = document.querySelector(".histogram");
    if (plot === null) return;
    const bars = [...plot.querySelectorAll(".bar")];
    const counts = bars.map(() => 0);
    for (const row of rows) {
      if (!row.hidden && row.dataset.share !== undefined) {
        counts[Math.min(Math.floor(Number(row.dataset.share) * 10), bars.length - 1)] += 1;
      }
    }
    const tallest = Math.max(1, ...counts);
    const labels = plot.querySelectorAll(".count");
    bars.forEach((bar, place) => {
      const height = (counts[place] / tallest) * Number(plot.dataset.room);
      const top = Number(plot.dataset.base) - height;
      bar.setAttribute("height", height);
      bar.setAttribute("y", top);
      labels[place].textContent = counts[place] || "";
      labels[place].setAttribute("y", top - 4);
    });
  };

  const sort = (button) => {
    const key = button.dataset.key;
    const order = button.dataset.order === "up" ? "down" : "up";
    for (const other of table.tHead.querySelectorAll("button")) delete other.dataset.order;
    button.dataset.order = order;
    const sign = order === "up" ? 1 : -1;
    const byText = key === "op" || key === "kernel";
    const compare = (a, b) => {
      const [left, right] = [a.dataset[key], b.dataset[key]];
      if (left === undefined || right === undefined) {
        return (left === undefined ? 1 : 0) - (right === undefined ? 1 : 0);
      }
      return sign * (byText ? left.localeCompare(right) : Number(left) - Number(right));
    };
    rows.sort(compare);
    table.append(...rows);
  };

  const fold = (head) => {
    const open = head.getAttribute("aria-expanded") !== "true";
    head.setAttribute("aria-expanded", String(open));
    head.nextElementSibling.hidden = !open;
  };

  find("filter").addEventListener("input", filter);
  find("filter").addEventListener("submit", (event) => event.preventDefault());
  table.tHead.addEventListener("click", (event) => {
    if (event.target.dataset.key) sort(event.target);
  });
  table.addEventListener("click", (event) => {
    const head = event.target.closest(".head");
    if (head) fold(head);
  });
  table.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.classList.contains("head")) fold(event.target);
  });
  find("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });
  filter();
})();
