// A plot of two values over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./parts.js";

/** Draw `series` (a signal: seconds, the first value, the second one), the second one dashed; `options` go to uPlot. */
export function Plot({ series, names, label, options }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const axis = { stroke: getComputedStyle(document.body).color, grid: { stroke: "#8886" } };
    const line = { width: 2, points: { show: true } };
    const lines = [{}, { ...line, label: names[0], stroke: "#3b82d0" }, { ...line, label: names[1], stroke: "#c2410c", dash: [6, 4] }];
    const size = () => ({ width: Math.max(200, place.current.clientWidth), height: 190 });
    plot.current = new uPlot({ ...size(), series: lines, axes: [axis, axis], ...options }, series.peek(), place.current);
    const watch = new ResizeObserver(() => place.current && plot.current.setSize(size()));
    watch.observe(place.current);
    return () => {
      watch.disconnect();
      plot.current.destroy();
    };
  }, []);
  const data = series.value;
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<div class="plot" ref=${place} role="img" aria-label=${label}></div>`;
}
