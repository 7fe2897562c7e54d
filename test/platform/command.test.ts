import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asksForHelp } from '../../src/platform/command.js';

test('help is asked for by flag and by Gym’s overrides', () => {
  for (const argument of ['-h', '--help', '+h=true', '+help=true', '++help=True', 'help=1']) {
    assert.ok(asksForHelp(['+limit=1', argument]), argument);
  }
});

test('another argument is no question for help', () => {
  for (const argument of ['+help=false', '+hint=true', '+agent_name=help', '--helper']) {
    assert.ok(!asksForHelp([argument]), argument);
  }
});
