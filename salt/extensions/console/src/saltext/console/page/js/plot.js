// A plot of two values over time.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./parts.js";

const LEAST_S = 60;
const SCALES = {
  x: { range: ({ data: [times] }) => (times.length ? [Math.min(times[0], times[times.length - 1] - LEAST_S), times[times.length - 1]] : [null, null]) },
  y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] },
};

/** Draw `series` (a signal: seconds, the first value, the second one), the second one dashed. */
export function Plot({ series, names, label }) {
  const place = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const axis = { stroke: getComputedStyle(document.body).color, grid: { stroke: "#8886" } };
    const line = { width: 2, points: { show: false } };
    const lines = [{}, { ...line, label: names[0], stroke: "#3b82d0", fill: "#3b82d033" }, { ...line, label: names[1], stroke: "#c2410c", dash: [6, 4] }];
    const size = () => ({ width: Math.max(200, place.current.clientWidth), height: 190 });
    plot.current = new uPlot({ ...size(), series: lines, axes: [axis, axis], scales: SCALES }, series.peek(), place.current);
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
