// The outputs of the attempts that have a directory now, opened as soon as there is one and readable until they are
// dropped: the output of a command that ends at once is there too, though its directory is gone. Directories appear
// before the database knows of their attempts; those of other runs are let go of again.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { attemptDirectory } from '../executor/attempt-files.ts';
import { type OutputSource, openOutput } from '../executor/output.ts';
import { type DirectoryWatch, watchDirectory } from './directory-watch.ts';

type Live = {
  readonly source: OutputSource;
  readonly watch: DirectoryWatch | 'missing' | 'refused';
  isOurs: boolean;
  /** Its start was durable at the last look: whoever reads the database now would find it. */
  isStarted: boolean;
};

export class LiveOutputs {
  readonly #wake: () => void;
  readonly #live = new Map<string, Live>();
  #others: ReadonlySet<string> = new Set();
  #runDirectory: string | null = null;
  #watch: DirectoryWatch | 'missing' | 'refused' = 'missing';

  /** `wake` is called when there may be something new. */
  constructor(wake: () => void) {
    this.#wake = wake;
  }

  /** Opens what has come to be in a run directory. Read the database after this, then call `settle`. */
  look(runDirectory: string): void {
    if (this.#runDirectory !== runDirectory || !isHealthy(this.#watch)) {
      stopWatch(this.#watch);
      this.#runDirectory = runDirectory;
      this.#watch = watchDirectory(path.join(runDirectory, 'attempts'), () => {
        this.#openNew();
        this.#wake();
      });
    }
    this.#openNew();
    for (const [attemptId, live] of this.#live) {
      live.isStarted ||= existsSync(path.join(attemptDirectory(runDirectory, attemptId), 'identity'));
    }
  }

  #openNew(): void {
    const names = listNames(path.join(this.#runDirectory ?? '', 'attempts'));
    this.#others = new Set(names.filter((name) => this.#others.has(name)));
    for (const attemptId of names.filter((name) => !this.#live.has(name) && !this.#others.has(name))) {
      this.#open(attemptId);
    }
  }

  #open(attemptId: string): void {
    const directory = attemptDirectory(this.#runDirectory ?? '', attemptId);
    const source = openOutput(directory, attemptId);
    const watch = watchDirectory(directory, ({ isName }) => {
      if (isName) {
        // Opened at once: it may be gone by the next look.
        source.look();
      }
      this.#wake();
    });
    source.look();
    this.#live.set(attemptId, { source, watch, isOurs: false, isStarted: false });
  }

  /** Lets go of what the database knows to be none of ours. */
  settle(ours: ReadonlySet<string>): void {
    for (const [attemptId, live] of this.#live) {
      live.isOurs ||= ours.has(attemptId);
      const isGone = live.watch === 'missing' || (live.watch !== 'refused' && live.watch.isStale());
      if (!live.isOurs && (live.isStarted || isGone)) {
        this.drop(attemptId);
      }
    }
  }

  find(attemptId: string): OutputSource | null {
    return this.#live.get(attemptId)?.source ?? null;
  }

  /** Lets go of one; it is not opened again. */
  drop(attemptId: string): void {
    const live = this.#live.get(attemptId);
    this.#live.delete(attemptId);
    this.#others = new Set([...this.#others, attemptId]);
    stopWatch(live?.watch ?? 'missing');
    live?.source.close();
  }

  /** Whether the database must be read to tell whose one is. */
  hasUndecided(): boolean {
    return [...this.#live.values()].some(({ isOurs }) => !isOurs);
  }

  /** Whether something changes without a word to us: then it must be looked for. */
  isBlind(): boolean {
    return this.#watch === 'refused' || [...this.#live.values()].some(({ watch }) => watch === 'refused');
  }

  close(): void {
    stopWatch(this.#watch);
    for (const attemptId of [...this.#live.keys()]) {
      this.drop(attemptId);
    }
  }
}

function isHealthy(watch: DirectoryWatch | 'missing' | 'refused'): boolean {
  return watch !== 'missing' && watch !== 'refused' && !watch.isStale();
}

function stopWatch(watch: DirectoryWatch | 'missing' | 'refused'): void {
  if (watch !== 'missing' && watch !== 'refused') {
    watch.stop();
  }
}

/** Names that can be attempts. */
function listNames(directory: string): string[] {
  try {
    return readdirSync(directory).filter((name) => /^[A-Za-z0-9][A-Za-z0-9._:-]{0,35}$/.test(name));
  } catch {
    return [];
  }
}
