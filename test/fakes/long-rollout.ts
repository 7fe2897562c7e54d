import type { Entry } from '../../src/model/journal.js';
import { author, entryOf } from './journal-lines.js';

const a = author('ignored');
/** As a tokenizer of 150,000 entries gives them, and as float32 prints. */
const ID = 123_456;
const LOGPROB = -1.2345678806304932;

/** A turn of this many tokens in small chunks, as a slow engine streams them. */
export function longTurn(
  turn: number,
  { tokens, chunk = 8 }: { tokens: number; chunk?: number },
): Entry[] {
  const entries: Entry[] = [];
  for (let offset = 0; offset < tokens; offset += chunk) {
    const count = Math.min(chunk, tokens - offset);
    const token_ids = Array.from({ length: count }, (_, i) => ID - i);
    const logprobs = token_ids.map((_, i) => LOGPROB - i);
    entries.push(
      entryOf(a.chunk({ turn, offset, token_ids, logprobs, text: ' word'.repeat(count) })),
    );
  }
  const content = ' word'.repeat(tokens);
  entries.push(entryOf(a.generation({ turn, token_count: tokens, content })));
  entries.push(entryOf(a.observation({ turn })));
  return entries;
}
