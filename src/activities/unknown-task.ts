/** Upstream's text, then what exists. */
export const unknownTask = (task: string, known: readonly string[]): string =>
  `No environment found for task type: ${task}; ${
    known.length === 0
      ? 'temporal.yaml has no environments'
      : `expected one of ${known.join(', ')} (environments of temporal.yaml)`
  }`;
