// Judges the databases of images in a folder of its own, each content once.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type Judged, judgeDatabase } from '../database.ts';
import type { Image } from './disk.ts';
import { digestBytes, digestEntry } from './image.ts';
import type { Judge, Query, Row } from './standard.ts';

const endings = ['', '-journal', '-wal'];

/** `folder` should be in memory: nothing of it is worth a sync. Not to be used by two at once. */
export function createJudge(folder: string): Judge {
  const known = new Map<string, Judged>();
  const remember = (key: string, look: () => Judged): Judged => {
    const judged = known.get(key) ?? look();
    known.set(key, judged);
    return judged;
  };
  const judge = (image: Image): Judged => {
    const parts = endings.map((ending) => image.get(`data/qinglong.db${ending}`));
    return remember(parts.map((entry) => (entry === undefined ? '-' : digestEntry(entry))).join(' '), () => {
      const file = writeDatabase(image, folder);
      // Most disks with a journal come back to one of a few databases: each of those is judged once.
      return remember(recover(file), () => judgeDatabase(file));
    });
  };
  return { judge, query: (image, asked) => query(writeDatabase(image, folder), asked) };
}

/** Lets SQLite take in what lies beside the database; answers with the digest of what is there then. */
function recover(file: string): string {
  if (!existsSync(file)) {
    return 'no database';
  }
  // Not held for itself alone: a journal would stay then, with a part of its bytes.
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA synchronous = OFF');
    db.prepare('SELECT count(*) FROM sqlite_schema').get();
  } catch (error) {
    // Judged as it is, for itself: what SQLite says may depend on what lies beside it.
    return `${(error as Error).message} ${endings.map((ending) => digestFile(file + ending)).join(' ')}`;
  } finally {
    db.close();
  }
  // A journal that is still there is none that is played back: whoever opens it next decides the same.
  return ['', '-wal'].map((ending) => digestFile(file + ending)).join(' ');
}

function digestFile(file: string): string {
  return existsSync(file) ? digestBytes(readFileSync(file)) : '-';
}

/** Without shared memory: it does not outlive the processes that had it. */
function writeDatabase(image: Image, folder: string): string {
  const file = join(folder, 'qinglong.db');
  // New files each time: a connection that could not be closed keeps its lock on the old ones alone.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const ending of endings) {
    const entry = image.get(`data/qinglong.db${ending}`);
    if (entry?.kind === 'file') {
      writeFileSync(file + ending, entry.bytes);
    }
  }
  return file;
}

function query(file: string, { table, sql }: Query): readonly Row[] {
  if (!existsSync(file)) {
    return [];
  }
  const db = new DatabaseSync(file);
  try {
    const tables = db.prepare('SELECT 1 FROM sqlite_schema WHERE name = ?').all(table);
    return tables.length === 0 ? [] : db.prepare(sql).all();
  } finally {
    db.close();
  }
}
