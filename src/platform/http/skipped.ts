/** Bytes between two marks that nobody reads. The marks stay. */
export interface Passage {
  begin: string;
  end: string;
}

/**
 * Takes a text piece by piece and gives it without these passages, which are never kept. The beginning of a mark at the
 * end of a piece comes with the next one.
 */
export function withoutPassages(passages: readonly Passage[]): (piece: Buffer) => Buffer {
  const marks = passages.map(({ begin, end }) => ({
    begin: Buffer.from(begin),
    end: Buffer.from(end),
  }));
  /** The end of the passage in progress. */
  let end = null as Buffer | null;
  let tail: Buffer = Buffer.alloc(0);
  return (piece) => {
    let rest = tail.length === 0 ? piece : Buffer.concat([tail, piece]);
    const kept: Buffer[] = [];
    for (;;) {
      if (end !== null) {
        const at = rest.indexOf(end);
        if (at === -1) {
          tail = Buffer.from(rest.subarray(rest.length - begunIn(rest, end)));
          break;
        }
        rest = rest.subarray(at);
        end = null;
      }
      const next = firstOf(rest, marks);
      if (next === null) {
        const begun = Math.max(0, ...marks.map(({ begin }) => begunIn(rest, begin)));
        kept.push(rest.subarray(0, rest.length - begun));
        tail = rest.subarray(rest.length - begun);
        break;
      }
      kept.push(rest.subarray(0, next.behind));
      rest = rest.subarray(next.behind);
      end = next.end;
    }
    const [only] = kept;
    return kept.length === 1 && only !== undefined ? only : Buffer.concat(kept);
  };
}

/** The first mark that begins a passage: where its bytes end. */
function firstOf(
  text: Buffer,
  marks: readonly { begin: Buffer; end: Buffer }[],
): { behind: number; end: Buffer } | null {
  const found = marks
    .map(({ begin, end }) => ({ at: text.indexOf(begin), begin, end }))
    .filter(({ at }) => at !== -1)
    .sort((a, b) => a.at - b.at);
  const [first] = found;
  return first === undefined ? null : { behind: first.at + first.begin.length, end: first.end };
}

/** How many of the last bytes are the beginning of a mark. */
function begunIn(text: Buffer, mark: Buffer): number {
  for (let count = Math.min(mark.length - 1, text.length); count > 0; count--)
    if (text.subarray(text.length - count).equals(mark.subarray(0, count))) return count;
  return 0;
}
