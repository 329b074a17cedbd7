// One picture of a result: memory, bytes a step, throughput, each beside its floor and the peers. Plain SVG with its
// own style for light and dark; no script, no font of its own. Pure: the same result gives the same picture.
import type { BenchResult, ResultFigure } from './result.ts';
import { printNumber } from './table.ts';

type Kind = 'product' | 'floor' | 'peer';
type Bar = { readonly label: string; readonly value: number; readonly kind: Kind };
type Group = { readonly title: string; readonly bars: readonly Bar[] };
type Panel = {
  readonly title: string;
  readonly unit: string;
  readonly hint: string;
  readonly groups: readonly Group[];
};

type PanelSource = {
  readonly title: string;
  readonly unit: string;
  readonly hint: string;
  /** Shown of a figure whose name begins so. */
  readonly names: readonly string[];
  readonly floor: string;
  /** What a value of the figure is divided by. */
  readonly divisor: number;
};

const sources: readonly PanelSource[] = [
  {
    title: 'Memory',
    unit: 'MiB',
    hint: 'less is better',
    names: ['idle VmRSS', 'peak VmRSS of an embedding process'],
    floor: 'bare Node',
    divisor: 1024,
  },
  {
    title: 'Written to storage per step',
    unit: 'KiB',
    hint: 'less is better',
    names: ['written per sequential step', 'written per step'],
    floor: 'raw commit',
    divisor: 1,
  },
  {
    title: 'Throughput, 32 chains at once',
    unit: 'steps/s',
    hint: 'more is better',
    names: ['throughput'],
    floor: 'raw commit of 32 rows',
    divisor: 1,
  },
];

const width = 760;
const labelWidth = 190;
const valueWidth = 90;
const barHeight = 16;
const rowHeight = 22;
const margin = 24;

function barsOf(figure: ResultFigure, source: PanelSource): readonly Bar[] {
  const scaled = (value: number) => value / source.divisor;
  return [
    { label: 'qinglong-edge', value: scaled(figure.value), kind: 'product' },
    ...figure.peers.map((peer): Bar => ({ label: peer.name, value: scaled(peer.value), kind: 'peer' })),
    ...(figure.floor === null ? [] : [{ label: source.floor, value: scaled(figure.floor), kind: 'floor' } as const]),
  ];
}

function panelsOf({ figures }: BenchResult): readonly Panel[] {
  return sources
    .map((source) => ({
      ...source,
      groups: figures
        .filter(({ name }) => source.names.some((start) => name.startsWith(start)))
        .map((figure) => ({ title: `${figure.profile}: ${figure.name}`, bars: barsOf(figure, source) })),
    }))
    .filter(({ groups }) => groups.length > 0);
}

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .quiet { fill: #59636e; }
  .back { fill: #ffffff; }
  .product { fill: #0969da; }
  .peer { fill: #bc4c00; }
  .floor { fill: #8c959f; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .quiet { fill: #9198a1; }
    .back { fill: #0d1117; }
    .product { fill: #4493f8; }
    .peer { fill: #db6d28; }
    .floor { fill: #656c76; }
  }
`;

/** Draws a result. Figures that it does not have are left out. */
export function drawChart(result: BenchResult): string {
  const parts: string[] = [];
  let y = margin;
  for (const panel of panelsOf(result)) {
    const max = scaleOf(panel);
    parts.push(drawText(margin, y + 12, panel.title, 'title'));
    parts.push(drawText(width - margin, y + 12, `${panel.unit}, ${panel.hint}`, 'quiet', 'end'));
    y += 32;
    for (const group of panel.groups) {
      parts.push(drawText(margin, y + 12, group.title, 'quiet'));
      y += rowHeight;
      for (const bar of group.bars) {
        parts.push(...drawBar(bar, { y, max }));
        y += rowHeight;
      }
      y += 8;
    }
    y += 14;
  }
  const { node, sqlite, cpu, fileSystem } = result.environment;
  const versions = `version ${result.subject.version}, Node ${node}, SQLite ${sqlite}`;
  const origin = `${versions}; ${cpu.count} processors, ${fileSystem.type}; medians of ${result.parameters.repeats}`;
  parts.push(drawText(margin, y + 6, origin, 'quiet'));
  const height = y + margin;
  const size = `viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="Figures of the bench">
<style>${style}</style>
<rect class="back" width="${width}" height="${height}"/>
${parts.join('\n')}
</svg>
`;
}

/** What the longest bar stands for. A floor that is far beyond everything else is cut off there. */
function scaleOf({ groups }: Panel): number {
  const bars = groups.flatMap((group) => group.bars);
  const most = Math.max(...bars.filter(({ kind }) => kind !== 'floor').map(({ value }) => value));
  return Math.max(...bars.map(({ value }) => value).filter((value) => value <= 4 * most));
}

type At = { readonly y: number; readonly max: number };

function drawBar({ label, value, kind }: Bar, { y, max }: At): readonly string[] {
  const left = margin + labelWidth;
  const room = width - left - margin - valueWidth;
  const isCut = value > max;
  const length = isCut ? room : Math.max(1, Math.round((value / max) * room * 10) / 10);
  const cutX = left + length - 24;
  const cut = `<path class="back" d="M${cutX} ${y + barHeight}l6 -${barHeight}h6l-6 ${barHeight}z"/>`;
  return [
    drawText(left - 8, y + 12, label, 'plain', 'end'),
    `<rect class="${kind}" x="${left}" y="${y}" width="${length}" height="${barHeight}" rx="2"/>`,
    ...(isCut ? [cut] : []),
    drawText(left + length + 6, y + 12, printNumber(value), 'plain'),
  ];
}

function drawText(x: number, y: number, text: string, className: string, anchor = 'start'): string {
  return `<text class="${className}" x="${x}" y="${y}" text-anchor="${anchor}">${escapeText(text)}</text>`;
}

function escapeText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
