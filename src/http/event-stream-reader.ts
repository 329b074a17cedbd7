// Reads Server-Sent Events as event-stream.ts writes them: one line a field, a blank line after each message. Owns the
// form, not what the messages mean.
import { EdgeError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';

export type StreamMessage = {
  /** `message` where none is given. */
  readonly event: string;
  readonly data: string;
};

/** Yields each complete message. Ends where the chunks end; throws `unavailable` for one that is far too long. */
export async function* readMessages(chunks: AsyncIterable<Buffer>): AsyncGenerator<StreamMessage, void> {
  const decoder = new TextDecoder();
  let pending = '';
  for await (const chunk of chunks) {
    pending += decoder.decode(chunk, { stream: true });
    const blocks = pending.split('\n\n');
    pending = blocks.pop() ?? '';
    for (const block of blocks) {
      yield readMessage(block);
    }
    if (pending.length > limits.httpMessageBytesMax) {
      throw new EdgeError('unavailable', 'the holder sends an event that has no end', {
        hint: 'stop the holder and start it again: it may be another version',
      });
    }
  }
}

function readMessage(block: string): StreamMessage {
  const fields = block.split('\n').map((line) => {
    const colon = line.indexOf(': ');
    return [line.slice(0, colon), line.slice(colon + 2)] as const;
  });
  const find = (name: string) => fields.find(([field]) => field === name)?.[1] ?? null;
  return { event: find('event') ?? 'message', data: find('data') ?? '' };
}
