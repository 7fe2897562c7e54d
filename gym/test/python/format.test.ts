import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { JsonObject } from '../../json/exact.js';
import { parseJson } from '../../json/exact.js';
import { formatMap, MissingField } from '../../python/format-map.js';

interface Recorded {
  template: string;
  text?: string;
  error?: string;
}

const GOLDEN = parseJson(
  readFileSync(
    new URL('../../../test/goldens/gym_config/python-format.json', import.meta.url),
    'utf8',
  ),
) as unknown as { row: string; templates: Recorded[] };
const ROW = parseJson(GOLDEN.row) as JsonObject;

const MISSING = 'no such field';
const REFUSED = 'refused';

function outcomeOf(template: string): string {
  try {
    return formatMap(template, ROW);
  } catch (error) {
    return error instanceof MissingField ? MISSING : REFUSED;
  }
}

describe('format specifications and conversions', () => {
  test('fill every recorded template as Python 3.11 fills it', () => {
    const filled = GOLDEN.templates.filter(({ text }) => text !== undefined);
    assert.ok(filled.length > 900);
    const wrong = filled
      .map(({ template, text }) => ({ template, text, got: outcomeOf(template) }))
      .filter(({ text, got }) => got !== text);
    assert.deepEqual(wrong, []);
  });

  test('are refused where Python raises an error, a KeyError by the name of the field', () => {
    const raised = GOLDEN.templates.filter(({ error }) => error !== undefined);
    assert.ok(raised.length > 300);
    const isKey = ({ error }: Recorded): boolean => error === 'KeyError';
    const outcomes = raised.map((one) => ({ ...one, got: outcomeOf(one.template) }));
    const wrong = outcomes.filter((one) =>
      isKey(one) ? one.got !== MISSING : one.got !== REFUSED && one.got !== MISSING,
    );
    assert.deepEqual(wrong, []);
  });

  test('of attributes are refused', () => {
    assert.deepEqual([outcomeOf('{s.upper}'), outcomeOf('{i.real:>4}')], [REFUSED, REFUSED]);
  });

  test('of a million characters and more are refused', () => {
    assert.equal(outcomeOf('{s:1000001}'), REFUSED);
    assert.equal(outcomeOf('{s:1000000}').length, 1_000_000);
  });
});
