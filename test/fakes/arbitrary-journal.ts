import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import { Semantics } from '../../src/model/semantics.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import type { Author } from './journal-lines.js';
import { SETTINGS, author } from './journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

/**
 * Arbitrary journals: several writers' lines in any order, each possibly torn in the middle of its write. Most lines
 * fit the previous ones, since a journal whose lines are all ignored shows nothing.
 */

type Write = (by: Author, at: Trajectory) => JournalLine;

const rarely = fc.constantFrom(0, 0, 0, 0, 0, 0, 1, -1);
const ids = fc.array(fc.nat({ max: 50 }), { maxLength: 3 });
/** Texts with characters of one to four bytes, so that a tear may split one. */
const text = fc.constantFrom('', 'a', 'é', '𝒳{"', 'end\n');

const claim = fc.tuple(fc.boolean(), rarely).map<Write>(
  ([reopen, limited]) =>
    (by) =>
      by.claim({ reopen, ...(limited === 1 && { limits: { max_seq_len: 3 } }) }),
);

const start = fc
  .tuple(ids, fc.constantFrom(...Semantics.options))
  .map<Write>(([token_ids, semantics]) => (by) => {
    const prompt = [{ role: 'user', content: 'go', token_ids }];
    return by.start({ settings: { ...SETTINGS, semantics }, prompt });
  });

/** After the existing tokens, at the turn's beginning, or in between. */
const chunk = fc
  .tuple(rarely, fc.constantFrom('end', 'end', 'end', 'start', 'between'), ids, text)
  .map<Write>(([slip, where, token_ids, content]) => (by, at) => {
    const { length: turn } = at.observations;
    const open = openAnswer(at);
    const standing = open.token_ids.length;
    const offset = { end: standing, start: 0, between: standing >> 1 }[where];
    return by.chunk({ turn: turn + slip, offset, token_ids, text: content });
  });

const generation = fc
  .tuple(rarely, rarely, text)
  .map<Write>(([slip, miscount, content]) => (by, at) => {
    const { length: turn } = at.observations;
    const open = openAnswer(at);
    const token_count = open.token_ids.length + miscount;
    return by.generation({ turn: turn + slip, token_count, content });
  });

const observation = fc.tuple(rarely, ids, fc.nat({ max: 9 })).map<Write>(
  ([slip, token_ids, reward]) =>
    (by, { observations }) =>
      by.observation({ turn: observations.length + slip, token_ids, reward }),
);

const fault = fc
  .boolean()
  .map<Write>((broken) => (by) => by.fault(broken ? { type: 'ProtocolError' } : {}));

/** The session is lost, and another prompt may follow. */
const loss = fc.constant<Write>((by) => by.fault({ type: 'EnvironmentStateLost' }));
const over = ids.map<Write>((token_ids) => (by, { start: before }) => {
  const settings = before?.settings ?? SETTINGS;
  return by.start({
    over: true,
    settings,
    prompt: [{ role: 'user', content: 'again', token_ids }],
  });
});

const end = fc
  .constantFrom('terminated', 'failed', 'timeout')
  .map<Write>((stop_reason) => (by) => by.end({ stop_reason }));

const write = fc.oneof(
  { weight: 4, arbitrary: claim },
  { weight: 1, arbitrary: start },
  { weight: 8, arbitrary: chunk },
  { weight: 8, arbitrary: generation },
  { weight: 8, arbitrary: observation },
  { weight: 2, arbitrary: fault },
  { weight: 1, arbitrary: end },
  { weight: 1, arbitrary: loss },
  { weight: 1, arbitrary: over },
);

/** Mostly the writer of the latest claim; sometimes one that it replaced, or one that never claimed. */
const who = fc.constantFrom(null, null, null, null, null, 'a', 'b', 'c');

const opening = [author('a').claim(), author('a').start()];

export const arbitraryLines: fc.Arbitrary<JournalLine[]> = fc
  .tuple(
    fc.constantFrom<JournalLine[]>(opening, opening, opening, []),
    fc.array(fc.tuple(who, write), { maxLength: 40, size: 'max' }),
  )
  .map(([first, writes]) => {
    const lines = [...first];
    const trajectory = emptyTrajectory();
    for (const line of lines) applyLine(trajectory, line);
    for (const [name, lineFor] of writes) {
      const line = lineFor(author(name ?? trajectory.writer ?? 'a'), trajectory);
      applyLine(trajectory, line);
      lines.push(line);
    }
    return lines;
  });

/** The bytes of one write: a claim begins with a newline. */
function bytesOf(line: JournalLine): Buffer {
  return Buffer.from(`${line.kind === 'claim' ? '\n' : ''}${JSON.stringify(line)}\n`);
}

/** The text of a file to which each line was written whole, or only up to some byte of it. */
export const arbitraryText: fc.Arbitrary<string> = arbitraryLines.chain((lines) => {
  const tear = fc.oneof(
    { weight: 12, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: fc.nat({ max: 400 }) },
  );
  return fc
    .array(tear, { minLength: lines.length, maxLength: lines.length })
    .map((tears) => Buffer.concat(lines.map((line, i) => bytesOf(line).subarray(0, tears[i]))))
    .map((bytes) => bytes.toString('utf8'));
});
