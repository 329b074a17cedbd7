// The keys whose signatures on packages are believed: the verbs behind `publisher add` and `publisher revoke`.

import { operation } from '../protocol/protocol.ts';
import {
  type AddPublisherInput,
  type AddPublisherOutcome,
  addPublisher,
  type RevokePublisherInput,
  type RevokePublisherOutcome,
  revokePublisher,
} from '../protocol/publisher.ts';
import type { Store } from '../store/store.ts';
import { checkArguments } from './arguments.ts';
import { localProjectId } from './settings.ts';

/** Throws `invalid` for what is no key. */
export async function trustPublisher(store: Store, request: AddPublisherInput): Promise<AddPublisherOutcome> {
  const { publicKey } = request;
  checkArguments({ publicKey });
  return await store.submit(operation(addPublisher, { publicKey }));
}

/** By the time this resolves nothing that the key has signed starts, and what runs of it is told to stop. */
export async function distrustPublisher(
  store: Store,
  request: Omit<RevokePublisherInput, 'projectId'>,
): Promise<RevokePublisherOutcome> {
  const { keyId, reason, requestedBy } = request;
  checkArguments({ keyId, reason, requestedBy });
  return await store.submit(operation(revokePublisher, { projectId: localProjectId, keyId, reason, requestedBy }));
}
