import { Fault } from '../../src/model/faults.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { author, entryOf } from './journal-lines.js';
import { BATCH, REF } from './temporary-store.js';

/**
 * Run as a program under a limit of file size: writes until nothing more fits, then prints what succeeded and what the
 * store threw. `journal` appends chunks, `answer` an agent's answer that is too large for the remaining room and then
 * the reason, `rows` closes rows.
 */

const [root = '', what = ''] = process.argv.slice(2);
const store = createFileStore({ root, max_cached_bytes: 0 });
const ROOM_FOR_ANY_LIMIT = 100_000;

async function fillJournal(succeeded: () => void): Promise<void> {
  const lines = author('ignored');
  const journal = await store.claim(REF, { activity: 'playTurns' });
  await journal.append(entryOf(lines.start()));
  for (let offset = 0; offset < ROOM_FOR_ANY_LIMIT; offset++) {
    await journal.append(
      entryOf(lines.chunk({ offset, token_ids: [offset], text: 'x'.repeat(997) })),
    );
    succeeded();
  }
}

async function fillWithAnswer(succeeded: () => void): Promise<void> {
  const lines = author('ignored');
  const journal = await store.claim(REF, { activity: 'playTurns' });
  await journal.append(entryOf(lines.start({ plays: 'agent', prompt: [] })));
  await journal.append(entryOf(lines.life()));
  try {
    await journal.append(entryOf(lines.result({ text: 'x'.repeat(1_000_000) })));
  } catch (error) {
    await journal.append(entryOf(lines.fault({ type: 'StoreFault', uncounted: true })));
    await journal.commit();
    succeeded();
    throw error;
  }
}

async function fillRows(succeeded: () => void): Promise<void> {
  const writer = await store.outputs(BATCH).openPart({ first: 0, last: 9 }, null);
  for (let row = 0; row < ROOM_FOR_ANY_LIMIT; row++) {
    await writer.write({
      row: JSON.stringify('x'.repeat(997)),
      summary: '{}',
      valid: true,
      sequences: () => [],
    });
    succeeded();
  }
}

const FILL: Record<string, typeof fillRows> = {
  journal: fillJournal,
  answer: fillWithAnswer,
  rows: fillRows,
};

let count = 0;
try {
  await FILL[what]?.(() => (count += 1));
} catch (error) {
  if (!(error instanceof Fault)) throw error;
  const { type, message, retryable } = error;
  console.log(JSON.stringify({ count, type, message, retryable }));
}
