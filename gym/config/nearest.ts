import { nearest } from '../../src/platform/nearest.js';

/** A suggestion for an unknown name, or ''. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, { known, mistakes: Math.max(2, Math.floor(name.length / 3)) });
  return near === null ? '' : `. Did you mean ${near}?`;
}

/** Probably a typing mistake: one letter differs. */
export const isTypingMistake = (name: string, known: Iterable<string>): boolean =>
  nearest(name, { known, mistakes: 1 }) !== null;
