/**
 * What is appended behind a generation. The template's ids for the next message begin with the end of the policy's turn:
 * a generation that has it (by an end of sequence, a stop token or a stop string) does not get it twice; one that was
 * cut before it (by length, by a stop string) gets it here.
 */
export function behindGeneration(
  generated: readonly number[],
  rendered: readonly number[],
): number[] {
  const isShared = (count: number): boolean => {
    const from = generated.length - count;
    for (let i = 0; i < count; i++) if (generated[from + i] !== rendered[i]) return false;
    return true;
  };
  let shared = Math.min(generated.length, rendered.length);
  while (!isShared(shared)) shared -= 1;
  return rendered.slice(shared);
}
