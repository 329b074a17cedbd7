// Reads a YAML 1.2 manifest with the line of every part. Values are built here and not by the library, in one walk that
// also finds duplicate keys (the library's own check is quadratic), keys that are no text, and bounds what aliases
// unfold to. No tags but those of the core schema, no directives, one document.
import type { Document, Node, YAMLMap, YAMLSeq } from 'yaml';
import { limits } from '../core/limits.ts';
import type { ManifestPath } from '../core/manifest-notes.ts';
import { createTextPlaces, type ParsedText } from './parsed-text.ts';

type Yaml = typeof import('./yaml-library.ts').yamlLibrary;

/** Never rejects for bad input. The library is evaluated here and nowhere else: JSON never pays for it. */
export async function parseYamlText(text: string): Promise<ParsedText> {
  const { yamlLibrary: yaml } = await import('./yaml-library.ts');
  const places = createTextPlaces();
  if (!hasFewNodes(yaml, text)) {
    const rule = `is too large for YAML: ${limits.yamlNodesMax} keys and values are allowed; write it as qinglong.json`;
    places.fail([], null, rule);
    return places.finish(null);
  }
  const lineCounter = new yaml.LineCounter();
  let document: Document.Parsed;
  try {
    document = yaml.parseDocument(text, {
      version: '1.2',
      schema: 'core',
      resolveKnownTags: false,
      uniqueKeys: false,
      prettyErrors: false,
      // `silent` would also keep quiet about a second document.
      logLevel: 'error',
      lineCounter,
    });
  } catch {
    // The parser recurses, and a text of brackets alone leads it to the end of the stack.
    places.fail([], null, `is nested too deeply: ${limits.manifestDepthMax} levels are allowed`);
    return places.finish(null);
  }
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  for (const { message, pos } of [...document.errors, ...document.warnings].slice(0, limits.mistakesMax)) {
    places.fail([], lineAt(pos[0]), `is no YAML as a package has it: ${message}`);
  }
  if (document.directives.yaml.explicit === true && document.directives.yaml.version !== '1.2') {
    places.fail([], 1, 'must be YAML 1.2: leave out the %YAML line');
  }
  const reader = createReader(yaml, { places, lineAt });
  return places.finish(document.errors.length > 0 ? null : reader(document.contents));
}

// First characters of the lexer's tokens that become nodes, or stand where a node is left out: scalars of every style,
// collections, aliases, entries of lists and maps.
const nodeMarks = '\x1f"\'[{*-:?';

/** Counts before anything is built: a text of 1 MiB can hold half a million nodes, 700 MB in memory. */
function hasFewNodes(yaml: Yaml, text: string): boolean {
  let nodes = 0;
  for (const token of new yaml.Lexer().lex(text)) {
    nodes += nodeMarks.includes(token[0]!) ? 1 : 0;
    if (nodes > limits.yamlNodesMax) {
      return false;
    }
  }
  return true;
}

function createReader(
  yaml: Yaml,
  context: { places: ReturnType<typeof createTextPlaces>; lineAt: (offset: number) => number },
): (root: Node | null) => unknown {
  const { places, lineAt } = context;
  // An alias means the nearest anchor before it in the text, also where its own surroundings are repeated by another
  // alias: so each is resolved once, when the text is walked in order.
  const anchors = new Map<string, Node>();
  const targets = new Map<Node, Node>();

  function lineOf(node: Node | null, otherwise: number): number {
    const offset = node?.range?.[0];
    return offset === undefined ? otherwise : lineAt(offset);
  }

  function readNode(node: Node | null, path: ManifestPath, lineOfKey: number): unknown {
    if (!places.enter(path, typeof path.at(-1) === 'number' ? lineOf(node, lineOfKey) : lineOfKey)) {
      return null;
    }
    if (yaml.isAlias(node)) {
      const target = targets.get(node) ?? anchors.get(node.source);
      if (target === undefined) {
        places.refuse(path, lineOf(node, lineOfKey), `is *${node.source}, but no anchor of that name stands before it`);
        return null;
      }
      targets.set(node, target);
      return readNode(target, path, lineOf(node, lineOfKey));
    }
    if ((yaml.isCollection(node) || yaml.isScalar(node)) && node.anchor !== undefined && !targets.has(node)) {
      targets.set(node, node);
      anchors.set(node.anchor, node);
    }
    if (yaml.isMap(node)) {
      return readMap(node, path, lineOf(node, lineOfKey));
    }
    if (yaml.isSeq(node)) {
      return (node as YAMLSeq<Node | null>).items.map((item, index) =>
        readNode(item, [...path, index], lineOf(node, lineOfKey)),
      );
    }
    return yaml.isScalar(node) ? node.value : null;
  }

  function readMap(map: YAMLMap, path: ManifestPath, lineOfMap: number): unknown {
    const entries = new Map<string, { readonly value: unknown; readonly line: number }>();
    for (const { key, value } of map.items as { key: Node | null; value: Node | null }[]) {
      const line = lineOf(key, lineOfMap);
      if (!yaml.isScalar(key) || typeof key.value !== 'string') {
        places.refuse(path, line, 'must have keys that are text: put them in quotes');
        continue;
      }
      const first = entries.get(key.value);
      if (first !== undefined) {
        places.refuse([...path, key.value], line, `is here for the second time (the first is on line ${first.line})`);
      }
      entries.set(key.value, { value: readNode(value, [...path, key.value], line), line });
    }
    // Made with fromEntries: assignment would turn a key `__proto__` into a prototype.
    return Object.fromEntries([...entries].map(([key, { value }]) => [key, value]));
  }

  return (root) => readNode(root, [], 1);
}
