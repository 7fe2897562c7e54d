/**
 * The ids to append after a generation. The template's ids for the next message begin with the end of the policy's
 * turn. A generation that contains it (an end of sequence, a stop token or a stop string) does not get it twice. A
 * generation that was cut before it (by length or a stop string) gets it here.
 */
export function idsAfterGeneration(
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
