'use strict';
// Sizes at which calls do something else. The tests make them small before they load the package.

module.exports = {
  /** Bytes and items of a piece: what is copied without a look at the clock. */
  bytes: 1 << 19,
  items: 1 << 14,

  /** Units that are copied and not worked on, from which on a copy waits. */
  waiting: 16 << 20,

  /**
   * Bytes of results of calls on this thread, between two turns of the event loop, from which on further ones are copied: large results are
   * borrowed from the addon, and are given back in a turn only.
   */
  lent: 64 << 20,

  /** Bytes and items of decoded texts that become strings without a look at the clock. */
  decodedBytes: 1 << 18,
  decodedItems: 1 << 12,

  /** Units of a text, or ids, of which calls for single items become one batch. */
  small: 1 << 14,
};
