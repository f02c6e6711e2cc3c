"use strict";
(function () {
  const data = "DATA";
  const ROW = 18, GUTTER = 220, LEAST = 50;
  const canvas = document.getElementById("lanes"), tip = document.getElementById("tip"), pen = canvas.getContext("2d");
  const [row, start, length, name, kind] = data.slices, byRow = data.rows.map(() => []);
  row.forEach((at, one) => byRow[at].push(one));
  byRow.forEach((own) => own.sort((a, b) => start[a] - start[b]));
  const home = data.view.slice();
  let [low, high] = home, width = 0, held = null, asked = false;

  function words(ns) {
    for (const [size, unit] of [[1e9, " s"], [1e6, " ms"], [1e3, " µs"]]) if (Math.abs(ns) >= size) return (ns / size).toPrecision(4) + unit;
    return Math.round(ns) + " ns";
  }
  function place(at) { return GUTTER + (at - low) * (width - GUTTER) / (high - low); }
  function time(x) { return low + (x - GUTTER) * (high - low) / (width - GUTTER); }
  function show(from, to) {
    const span = Math.min(Math.max(to - from, LEAST), data.whole || LEAST);
    const middle = (from + to) / 2;
    low = Math.min(Math.max(middle - span / 2, 0), Math.max(data.whole - span, 0));
    high = low + span;
    if (!asked) { asked = true; requestAnimationFrame(draw); }
  }
  function draw() {
    asked = false;
    const scale = window.devicePixelRatio || 1;
    width = document.documentElement.clientWidth;
    const height = ROW * (data.rows.length + 1);
    canvas.width = width * scale; canvas.height = height * scale; canvas.style.height = height + "px";
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "12px ui-monospace, Menlo, Consolas, monospace"; pen.textBaseline = "middle";
    pen.fillStyle = data.ground[0]; pen.fillRect(0, 0, width, height);
    pen.fillStyle = data.ground[1]; pen.fillRect(0, 0, width, ROW);
    pen.fillStyle = data.ground[3];
    const step = 10 ** Math.floor(Math.log10((high - low) / 2));
    for (let at = Math.ceil(low / step) * step; at < high; at += step) {
      pen.fillRect(place(at), 0, 1, 5);
      if ((high - low) / step < 12) pen.fillText(words(at), place(at) + 3, ROW / 2);
    }
    data.rows.forEach((each, number) => {
      const y = ROW * (number + 1);
      let end = -1;
      for (const one of byRow[number]) {
        if (start[one] + length[one] < low || start[one] > high) continue;
        const x = Math.max(place(start[one]), GUTTER), till = Math.max(Math.min(place(start[one] + length[one]), width), x + 1);
        if (till <= end) continue;
        end = till - .5;
        pen.fillStyle = data.colours[kind[one]]; pen.fillRect(x, y + 1, till - x, ROW - 2);
        const fits = Math.floor((till - x - 6) / 7.3);
        if (fits > 2) { pen.fillStyle = "#0a0b0e"; pen.fillText(data.names[name[one]].slice(0, fits), x + 3, y + ROW / 2); }
      }
      pen.fillStyle = data.ground[0]; pen.fillRect(0, y, GUTTER, ROW);
      pen.fillStyle = data.ground[each.head ? 2 : 3]; pen.fillText(each.name, each.head ? 6 : 18, y + ROW / 2);
    });
  }
  function zoom(factor, x) { const at = time(x); show(at - (at - low) / factor, at + (high - at) / factor); }
  function pan(share) { const by = share * (high - low); show(low + by, high + by); }
  function under(event) {
    const box = canvas.getBoundingClientRect(), number = Math.floor((event.clientY - box.top) / ROW) - 1;
    const at = time(event.clientX - box.left), near = (high - low) / (width - GUTTER);
    return (byRow[number] || []).find((one) => start[one] - near <= at && at <= start[one] + length[one] + near);
  }
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey || event.shiftKey)) return;
    event.preventDefault();
    if (event.shiftKey) pan(Math.sign(event.deltaY || event.deltaX) * .1);
    else zoom(event.deltaY < 0 ? 1.25 : .8, event.clientX);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = event.clientX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (held !== null) {
      const by = (held - event.clientX) * (high - low) / (width - GUTTER);
      held = event.clientX; show(low + by, high + by); return;
    }
    const one = under(event);
    tip.style.display = one === undefined ? "none" : "block";
    if (one === undefined) return;
    tip.textContent = data.names[name[one]] + "\n" + words(length[one]) + " from " + words(start[one]);
    tip.style.left = Math.min(event.clientX + 12, width - 300) + "px"; tip.style.top = event.clientY + 14 + "px";
  });
  document.addEventListener("keydown", (event) => {
    const keys = { w: () => zoom(1.25, (width + GUTTER) / 2), s: () => zoom(.8, (width + GUTTER) / 2), a: () => pan(-.1), d: () => pan(.1), 0: () => show(...home), f: () => show(0, data.whole) };
    if (!event.ctrlKey && !event.metaKey && keys[event.key]) keys[event.key]();
  });
  window.addEventListener("resize", draw);
  draw();
  window.lanes = { view: () => [low, high] };
})();
