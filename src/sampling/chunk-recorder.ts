import type { Delta } from '../generation/generation-service.js';
import { addTo } from '../generation/generation-service.js';
import type { LineOf } from '../model/journal.js';
import type { Label } from './labels.js';
import type { Tape } from './call.js';
import type { RequestFacts } from './tape.js';
import { partOf } from './tape.js';

/**
 * How long, and in how large a group, a streamed token may wait before it is written. The write may take the rest of
 * the 250 ms that ARCHITECTURE.md promises.
 */
const MAX_WAIT_MS = 200;
const MAX_WAITING = 64;

interface Recording {
  facts: RequestFacts & Label;
  /**
   * Called after tokens up to `through` have arrived and before they are written. null: neither they nor later ones are
   * written. Absent: they get the label of `facts`.
   */
  labelled?: (through: number) => Promise<Label | null>;
  /** Offset in the answer of the first token to come. */
  offset: number;
  onFailure: (error: unknown) => void;
  /** The first tokens wait for none that follow. */
  is_read?: boolean;
}

/** Writes an answer's tokens into the journal as they stream in, so that they outlive the stream. */
export function recordChunks(
  tape: Tape,
  { facts: initial, offset: first, onFailure, labelled, is_read = false }: Recording,
) {
  let facts = initial;
  let offset = first;
  let waiting: Delta = { token_ids: [], logprobs: [], text: '' };
  let timer: NodeJS.Timeout | null = null;
  let written: Promise<void> = Promise.resolve();
  let isOver = false;

  const write = (): void => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const news = waiting;
    if (isNothing(news)) return;
    waiting = { token_ids: [], logprobs: [], text: '' };
    const chunk = { kind: 'chunk', ...facts, offset, ...news } as const;
    offset += news.token_ids.length;
    inTurn(async () => {
      const label = await labelled?.(throughOf(chunk));
      if (label === null) isOver = true;
      else await tape.append({ ...chunk, ...label });
    });
  };
  const inTurn = (append: () => Promise<void>): void => {
    written = written.then(() => (isOver ? undefined : append()));
    // A failed write ends the generation at once; `flush` throws the error.
    written.catch(onFailure);
  };
  /** Writes what waits. Resolves when all of it is in the journal; throws the error of a failed write. */
  const flush = async (): Promise<void> => {
    write();
    await written;
  };
  return {
    flush,
    /** Gives the tokens from this offset on, and later ones, this version. Resolves when the journal has it. */
    relabel: async ({ from, ...label }: { from: number } & Label): Promise<void> => {
      write();
      facts = { ...facts, ...label };
      const chunk = { kind: 'chunk', ...facts, offset: from } as const;
      inTurn(async () => {
        const open = tape.open();
        if (open.token_ids.length > from)
          await tape.append({ ...chunk, ...partOf(open, { from }) });
      });
      await flush();
    },
    add: (delta: Delta): void => {
      addTo(waiting, delta);
      const isFirst = is_read && offset === first && waiting.token_ids.length > 0;
      if (isFirst || waiting.token_ids.length >= MAX_WAITING) write();
      else timer ??= setTimeout(write, MAX_WAIT_MS);
    },
  };
}

const throughOf = ({ offset, token_ids }: Pick<LineOf<'chunk'>, 'offset' | 'token_ids'>): number =>
  offset + token_ids.length;

const isNothing = ({ token_ids, text, finish }: Delta): boolean =>
  token_ids.length === 0 && text === '' && finish === undefined;
