// What waits to be carried out under leases, and goes together while others of it are under way. Owns which operations
// form a group, and what becomes of each member; how a group is carried out is in group.ts.
import type { Operation } from '../../protocol/protocol.ts';
import type { Lease } from '../leases.ts';
import type { Settled } from '../store.ts';
import { bounds } from './bounds.ts';
import { type CarrierOptions, unknownOutcome } from './carrier.ts';
import { type Member, type Together, tryTogether, viewOfMember } from './group.ts';

export type GroupsOptions = {
  readonly carrying: CarrierOptions;
  /** Carries out one operation by itself, effects included. */
  readonly alone: (operation: Operation, lease: Lease) => Promise<unknown>;
  readonly committed: (settled: readonly Settled[]) => void;
  readonly doubted: () => void;
};

type Waiting = Omit<Member, 'freshIds'> & Omit<PromiseWithResolvers<unknown>, 'promise'>;

/** Of each run at most one is given at a time. */
export function createGroups(options: GroupsOptions): (operation: Operation, lease: Lease) => Promise<unknown> {
  const waiting: Waiting[] = [];
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
  return (operation, lease) => {
    if (viewOfMember({ operation, lease }, options.carrying) === null) {
      return options.alone(operation, lease);
    }
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    waiting.push({ operation, lease, resolve, reject });
    // What else is submitted in this moment goes along.
    queueMicrotask(pump);
    return promise;
  };
}

/** Settles every member, or has each of them carried out by itself; never rejects. */
async function carryOutGroup(group: readonly Waiting[], options: GroupsOptions): Promise<void> {
  const { committed, doubted } = options;
  let together: Together;
  try {
    together = group.length === 1 ? { kind: 'apart' } : await tryOn(group, options.carrying);
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
  for (const [index, member] of group.entries()) {
    const part = parts[index] ?? null;
    if (part === null) {
      apart.push(options.alone(member.operation, member.lease).then(member.resolve, member.reject));
    } else {
      member.resolve(part.outcome);
    }
  }
  // Those that fell out of a group keep nobody waiting: what they meet may take seconds.
  if (group.length === 1) {
    await Promise.all(apart);
  }
}

async function tryOn(group: readonly Waiting[], carrying: CarrierOptions): Promise<Together> {
  const members = group.map(({ operation, lease }) => ({ operation, lease, freshIds: carrying.drawIds(operation) }));
  const connection = await carrying.pool.acquire();
  try {
    return await tryTogether(connection, members, carrying);
  } finally {
    carrying.pool.release(connection);
  }
}
