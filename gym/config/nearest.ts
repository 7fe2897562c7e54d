import { nearest } from '../../src/platform/nearest.js';

/** A suggestion for a name that is not known; '' where none is near. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, { known, mistakes: Math.max(2, Math.floor(name.length / 3)) });
  return near === null ? '' : `. Did you mean ${near}?`;
}

/** Hardly a name of its own: one letter off. */
export const isTypingMistake = (name: string, known: Iterable<string>): boolean =>
  nearest(name, { known, mistakes: 1 }) !== null;
