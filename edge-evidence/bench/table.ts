// The result as people read it: one line a figure. Pure.
import type { BenchResult, ResultFigure } from './result.ts';

const head = ['PROFILE', 'WHAT', 'VALUE', 'FLOOR', 'BUDGET', '', 'PEERS'];

export function printTable(result: BenchResult): string {
  const { subject, environment, parameters, skipped, summary, peers } = result;
  const rows = [head, ...result.figures.map(rowOf)];
  const widths = head.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) =>
        column === 2 || column === 3 ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
  const { fileSystem, cpu, memoryKib, kernel, loadBefore, node, sqlite, isMemory } = environment;
  const place = `${fileSystem.type} (${fileSystem.mountOptions.join(',')})${isMemory ? ', WHICH IS MEMORY' : ''}`;
  return [
    `bundle ${subject.bundleSha256.slice(0, 16)}, version ${subject.version}; Node ${node}, SQLite ${sqlite}`,
    `${cpu.model}, ${cpu.count} processors, ${Math.round(memoryKib / 1024)} MiB; ${kernel}`,
    `${place}; load before ${loadBefore}`,
    `medians of ${parameters.repeats}, where a note says nothing else; took ${result.tookS} s`,
    '',
    ...lines,
    '',
    ...peers.map(({ name, version, configuration }) => `peer ${name} ${version}: ${configuration}`),
    ...skipped.map(({ name, reason }) => `not measured: ${name}: ${reason}`),
    ...result.limits.map((limit) => `mind: ${limit}`),
    `${summary.figures} figures, ${summary.met} within their budget, ${summary.notMet} not`,
    '',
  ].join('\n');
}

function rowOf(figure: ResultFigure): readonly string[] {
  const { profile, name, unit, value, floor, budget, isMet, peers } = figure;
  const bound = budget?.bound === 'at-least' ? '>=' : '<=';
  return [
    profile ?? '',
    name,
    `${printNumber(value)} ${unit}`,
    floor === null ? '' : printNumber(floor),
    budget === null ? '' : `${bound} ${printNumber(budget.limit)} (${budget.rule})`,
    isMet === null ? '' : isMet ? 'met' : 'NOT MET',
    peers.map((peer) => `${peer.name} ${printNumber(peer.value)}`).join(', '),
  ];
}

/** Thousands apart, and as many places as say something. */
export function printNumber(value: number): string {
  const places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en', { maximumFractionDigits: places });
}
