/* SPDX-License-Identifier: MIT
 *
 * What is asked of a state without the table agrees with it.
 */
#include "rt.h"
#include "scope/nursery_state.h"

TEST_MAIN

TEST(only_an_open_one_takes_children)
{
    for (unsigned i = HD_NURSERY_OPEN; i <= HD_NURSERY_CANCELLED; i++) {
        const hd_nursery_state state = (hd_nursery_state)i;
        int refused = 1;
        EXPECT_EQ(hdi_nursery_next(state, HDI_NURSERY_SPAWN, &refused), state);
        EXPECT_EQ(hdi_nursery_is_open(state), refused == 0);
    }
}

TEST(from_a_final_one_no_way_leads_on)
{
    for (unsigned i = HD_NURSERY_OPEN; i <= HD_NURSERY_CANCELLED; i++) {
        const hd_nursery_state state = (hd_nursery_state)i;
        bool leads_on = false;
        for (unsigned event = 0; event < HDI_NURSERY_EVENTS; event++) {
            int refused;
            leads_on |= hdi_nursery_next(state, (enum hdi_nursery_event)event, &refused) != state;
        }
        EXPECT_EQ(hdi_nursery_is_final(state), !leads_on);
    }
}
