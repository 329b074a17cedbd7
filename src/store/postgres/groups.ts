// What waits to be carried out, and goes together while others of it are under way. Owns which operations form a
// group, and what becomes of each member; how a group is carried out is in group.ts.
import type { Settled } from '../store.ts';
import { bounds } from './bounds.ts';
import { type CarrierOptions, unknownOutcome } from './carrier.ts';
import { type GroupKind, type Member, type Part, type Together, tryTogether } from './group.ts';

export type GroupsOptions<M extends Member, D extends Part> = {
  readonly carrying: CarrierOptions;
  readonly kind: GroupKind<M, D>;
  /** Carries out one by itself, effects included. */
  readonly alone: (member: M) => Promise<unknown>;
  readonly committed: (settled: readonly Settled[]) => void;
  readonly doubted: () => void;
};

type Waiting<M> = { readonly member: M } & Omit<PromiseWithResolvers<unknown>, 'promise'>;

export function createGroups<M extends Member, D extends Part>(
  options: GroupsOptions<M, D>,
): (member: Omit<M, 'freshIds'>) => Promise<unknown> {
  const { carrying, kind, alone } = options;
  const waiting: Waiting<M>[] = [];
  let underWay = 0;
  const pump = () => {
    while (underWay < bounds.groupsMax && waiting.length > 0) {
      underWay += 1;
      void carryOutGroup(waiting.splice(0, bounds.groupMax), options).finally(() => {
        underWay -= 1;
        pump();
      });
    }
  };
  return (given) => {
    const member = { ...given, freshIds: carrying.drawIds(given.operation) } as M;
    if (!kind.fits(member)) {
      return alone(member);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    waiting.push({ member, resolve, reject });
    // What else is submitted in this moment goes along.
    queueMicrotask(pump);
    return promise;
  };
}

/** Settles every member, or has each of them carried out by itself; never rejects. */
async function carryOutGroup<M extends Member, D extends Part>(
  group: readonly Waiting<M>[],
  options: GroupsOptions<M, D>,
): Promise<void> {
  const { alone, committed, doubted } = options;
  let together: Together;
  try {
    together = group.length === 1 ? { kind: 'apart' } : await tryOn(group, options);
  } catch (error) {
    for (const { reject } of group) {
      reject(error);
    }
    return;
  }
  if (together.kind === 'unknown') {
    doubted();
    for (const { reject } of group) {
      reject(unknownOutcome(together.error));
    }
    return;
  }
  const parts = together.kind === 'committed' ? together.parts : [];
  if (together.kind === 'committed') {
    committed(parts.flatMap((part) => part?.settled ?? []));
  }
  const apart: Promise<void>[] = [];
  for (const [index, { member, resolve, reject }] of group.entries()) {
    const part = parts[index] ?? null;
    if (part === null) {
      apart.push(alone(member).then(resolve, reject));
    } else {
      resolve(part.outcome);
    }
  }
  // Those that fell out of a group keep nobody waiting: what they meet may take seconds.
  if (group.length === 1) {
    await Promise.all(apart);
  }
}

async function tryOn<M extends Member, D extends Part>(
  group: readonly Waiting<M>[],
  { carrying, kind }: GroupsOptions<M, D>,
): Promise<Together> {
  const connection = await carrying.pool.acquire();
  try {
    const members = group.map(({ member }) => member);
    return await tryTogether(connection, members, kind);
  } finally {
    carrying.pool.release(connection);
  }
}
