// Style rules over imports: the arrow between the layers, who may name an adapter, cycles.
import { type FileCheck, type Finding, listImports, type StyleFile } from './style-rule.ts';

/** The public entry points, which alone may name an adapter and re-export. */
export const entryFiles: readonly string[] = [
  'src/index.ts',
  'src/sqlite.ts',
  'src/postgres.ts',
  'src/evidence.ts',
  'src/workflow-plan.ts',
  'src/workflow-admission.ts',
  'src/workflow-frontier.ts',
  'src/cli/main.ts',
];

const surface = ['core', 'protocol', 'store', 'executor', 'runtime', 'cli', 'http', 'ui'];

/** What each layer may import from. */
const layers: Readonly<Record<string, readonly string[]>> = {
  core: ['core'],
  protocol: ['core', 'protocol'],
  store: ['core', 'protocol', 'store'],
  executor: ['core', 'executor'],
  runtime: ['core', 'protocol', 'store', 'executor', 'runtime'],
  cli: surface,
  http: surface,
  ui: surface,
};

const bundledPackages = ['valibot', 'yaml', 'croner'];

export function isEntry(file: string): boolean {
  return entryFiles.includes(file);
}

/** The folder under src/ that a file belongs to; null outside of src/ and for its entry files. */
function layerOf(file: string): string | null {
  const [top, layer, ...rest] = file.split('/');
  return top === 'src' && rest.length > 0 ? (layer ?? null) : null;
}

/** `store/sqlite` or `store/postgres`; null for all other files. */
function adapterOf(file: string): string | null {
  return /^src\/(store\/[^/]+)\//.exec(file)?.[1] ?? null;
}

export const checkLayers: FileCheck = (file) => {
  const layer = layerOf(file.path);
  if (layer === null) {
    return isEntry(file.path)
      ? []
      : [{ path: file.path, line: 1, what: 'is neither in a layer nor a known entry file' }];
  }
  const allowed = layers[layer];
  if (allowed === undefined) {
    return [{ path: file.path, line: 1, what: `${layer} is no layer` }];
  }
  return importsOf(file, ({ target }) => {
    if (isEntry(file.path) && target.startsWith('src/')) {
      return null;
    }
    const targetLayer = layerOf(target);
    return targetLayer !== null && allowed.includes(targetLayer) ? null : `${layer} imports ${target}`;
  });
};

export const checkAdapters: FileCheck = (file) =>
  importsOf(file, ({ target }) => {
    const adapter = adapterOf(target);
    const isFree = adapter === null && !isEntry(target);
    const isAllowed = isFree || isEntry(file.path) || (adapter !== null && adapter === adapterOf(file.path));
    return isAllowed ? null : `names ${target}, which an entry file alone may`;
  });

/** The evidence drives the product from outside; its own fold must not lean on the one that it checks. */
export const checkEvidenceImports: FileCheck = (file) =>
  importsOf(file, ({ target }) => {
    const isOwn = target.startsWith('edge-evidence/');
    const isCore = target.startsWith('src/core/') && target !== 'src/core/evolve.ts';
    return isOwn || isCore ? null : `imports ${target}`;
  });

export const checkPackages: FileCheck = (file) =>
  listImports(file).flatMap(({ target, isRelative, line }) => {
    const isPostgres = target === 'pg' && file.path.startsWith('src/store/postgres/');
    const isAllowed = isRelative || target.startsWith('node:') || bundledPackages.includes(target) || isPostgres;
    return isAllowed ? [] : [{ path: file.path, line, what: `imports ${target}` }];
  });

/** `hash.ts` is the one port through which core meets the platform. */
export const checkCorePlatform: FileCheck = (file) =>
  listImports(file).flatMap(({ target, line }) =>
    target.startsWith('node:') && file.path !== 'src/core/hash.ts'
      ? [{ path: file.path, line, what: `imports ${target}` }]
      : [],
  );

function importsOf(file: StyleFile, judge: (imported: { target: string }) => string | null): Finding[] {
  return listImports(file).flatMap((imported) => {
    const what = imported.isRelative ? judge(imported) : null;
    return what === null ? [] : [{ path: file.path, line: imported.line, what }];
  });
}

/** Cycles of imports, types included: each is told once, at the file of it that comes first. */
export function checkCycles(files: readonly StyleFile[]): Finding[] {
  const targets = new Map(files.map((file) => [file.path, listImports(file).filter(({ isRelative }) => isRelative)]));
  const done = new Set<string>();
  const findings: Finding[] = [];
  const visit = (file: string, trail: readonly string[]) => {
    const start = trail.indexOf(file);
    if (start >= 0) {
      const cycle = trail.slice(start);
      findings.push({ path: file, line: 1, what: [...cycle, file].join(' → ') });
      return;
    }
    if (done.has(file)) {
      return;
    }
    for (const { target } of targets.get(file) ?? []) {
      visit(target, [...trail, file]);
    }
    done.add(file);
  };
  for (const file of targets.keys()) {
    visit(file, []);
  }
  return findings;
}
