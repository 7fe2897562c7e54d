import assert from 'node:assert/strict';
import { isNumber, isObject, type Json } from '../../json/exact.js';

const TOLERANCE = 1e-9;

/** Same keys in the same order, ints as ints and floats as floats, floats within 1e-9. */
export function assertClose(actual: Json, expected: Json): void {
  compare({ actual, expected, at: '$' });
}

interface Place {
  actual: Json | undefined;
  expected: Json;
  at: string;
}

function compare({ actual, expected, at }: Place): void {
  if (isNumber(expected)) {
    assert.ok(isNumber(actual), `${at}: expected ${expected.text}, got no number`);
    const kind = (text: string): string => (/[.eE]/.test(text) ? 'float' : 'int');
    assert.equal(kind(actual.text), kind(expected.text), `${at}: ${actual.text}`);
    const [a, b] = [Number(actual.text), Number(expected.text)];
    const room = TOLERANCE * Math.max(1, Math.abs(b));
    assert.ok(Math.abs(a - b) <= room, `${at}: expected ${b}, got ${a}`);
  } else if (Array.isArray(expected)) {
    assert.ok(Array.isArray(actual), `${at}: expected a list`);
    assert.equal(actual.length, expected.length, `${at}: length`);
    expected.forEach((value, index) => {
      compare({ actual: actual[index], expected: value, at: `${at}[${index}]` });
    });
  } else if (isObject(expected)) {
    assert.ok(isObject(actual), `${at}: expected an object`);
    assert.deepEqual(Object.keys(actual), Object.keys(expected), `${at}: keys`);
    for (const [key, value] of Object.entries(expected)) {
      compare({ actual: actual[key], expected: value, at: `${at}.${key}` });
    }
  } else {
    assert.deepEqual(actual, expected, at);
  }
}
