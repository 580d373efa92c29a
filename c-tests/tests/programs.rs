//! The test programs in `programs/`, one named test a case: each has lastuse and upstream's allocator in it.

mod support;

/// A module a program; in it one test a case, which passes when the program does.
macro_rules! program {
    ($name:ident, with [$($support:literal),*]: $($case:ident $(($($argument:literal),*))?),* $(,)?) => {
        mod $name {
            use std::sync::OnceLock;

            use lastuse_c_tests::Program;

            use super::support;

            pub fn program() -> &'static Program {
                static PROGRAM: OnceLock<Program> = OnceLock::new();
                PROGRAM.get_or_init(|| support::program_with_both(stringify!($name), &[$($support),*], &[]))
            }

            $(
                #[test]
                fn $case() {
                    support::passes(program(), &[stringify!($case) $($(, $argument)*)?]);
                }
            )*
        }
    };
}

program!(differential, with ["side_by_side", "random_graph", "plan_check", "dummy_buffer"]:
    single_buffer, several_buffer_types, chunk_limits, markers, alternatives, early_markers, unlisted_leafs, growing_and_shrinking,
);

program!(plan_check_faults, with ["plan_check", "dummy_buffer"]:
    checker_finds_faults, checker_finds_wrong_buffer_types,
);

program!(truth, with ["own_memory", "random_graph", "plan_check", "transformer"]:
    one_thread, two_threads, markers, alternatives, alternatives_two_threads, oddities_are_planned, output_views, one_allocator, reserve_for_another, stale_plan,
    rules_none, rules_of_ggml, rules_all, rules_without_in_place, rules_without_views, rules_without_rows,
    rules_without_copies, rules_without_concat, rules_without_oldest_source, rules_without_unread_inputs,
    rules_without_inactive,
);

program!(failures, with ["dummy_buffer"]:
    every_failure_in_one_chunk, every_failure_in_several_chunks, every_failure_in_two_types,
    failure_is_logged_like_upstream, failed_growth_leaves_a_usable_allocator, wanted_size_per_type,
    failed_init_tensor_is_not_success, old_buffer_is_freed_first, chunks_are_prepared_and_reset,
    unused_type_is_not_called, repeated_type_is_counted_once, oversized_tensor_gets_its_own_chunk,
    sixteen_chunks_at_most, sizes_are_asked_once, extra_bytes_are_kept_free, every_alignment_is_kept,
);

program!(lifecycle, with ["dummy_buffer", "plan_check", "transformer"]:
    growing_and_shrinking_graphs, prompt_and_decode_alternate, largest_plan_serves_smaller_graphs,
    allocated_graph_is_left_alone, plan_does_not_outlive_a_views_offset, several_types_need_a_reserve,
    several_types_refuse_a_stale_plan, measured_then_allocated, freeing_null, empty_graph, only_leafs,
    source_in_no_list, zero_size_tensors, large_graphs, allocators_in_threads,
);

program!(ctx_tensors, with ["dummy_buffer"]:
    context_order_and_padding, split_at_the_maximum, extra_bytes_are_counted, nothing_to_place_gives_null,
    views_get_the_memory_of_their_roots, failure_frees_everything, random_contexts, backend_means_its_default_type,
    type_may_place_by_itself, tallocr_pads_its_start_and_its_tensors, tallocr_uses_the_last_byte,
    tallocr_passes_failures_on,
);

program!(reorder, with ["own_memory", "random_graph", "plan_check", "training", "transformer"]:
    random_graphs, random_graphs_in_threads, large_random_graphs, random_graphs_with_output_views, markers, alternatives,
    what_the_scheduler_adds,
    training_graph, training_graph_in_threads, scheduler_runs_the_new_order, two_branches_run_one_after_the_other,
    nothing_passes_a_function_of_the_program, writes_stay_before_reads, overlapping_tensors_are_one, little_to_reorder,
    report_and_type_may_be_missing, effort_is_a_limit, graphs_built_alike_get_the_same_order,
);

program!(remove_copies, with ["own_memory", "random_graph", "plan_check", "transformer"]:
    random_graphs, random_graphs_on_upstreams_allocator, random_graphs_in_threads, large_random_graphs,
    random_graphs_in_another_order, random_graphs_by_scheduler, random_graphs_for_unknown_memory,
    graphs_of_copies, graphs_of_copies_on_upstreams_allocator, graphs_of_copies_in_threads,
    graphs_of_copies_by_scheduler, graphs_of_copies_in_another_order, random_graphs_with_output_views, markers,
    alternatives,
);

program!(removed_copies, with ["dummy_buffer", "plan_check", "transformer"]:
    copies_are_removed, copies_are_left, memory_that_is_not_known_is_left_alone, allocated_graph_is_left_alone,
    memory_of_a_context_is_written, producers_stay_on_their_device, odd_graphs_are_left_alone,
    nothing_need_be_said_to_be_in_place,
);

program!(unusual_graphs, with []:
    tensor_that_had_memory_is_measured, tensor_listed_twice_is_refused, very_many_live_tensors,
    nodes_that_read_as_much_as_they_can,
    view_of_an_empty_tensor_is_left_alone, numbers_that_are_no_operation_are_not_in_place,
);

program!(rules, with ["rule_graphs", "plan_check", "transformer"]:
    each_rule_lowers_the_size, in_place_is_what_ggml_does, oldest_source_is_taken,
    source_just_computed_in_place_is_taken, add_id_never_lies_over_the_rows_it_picks,
    gradients_in_place_are_right, concat_of_other_lengths_is_planned_anew,
);

program!(rule_settings, with ["rule_graphs", "dummy_buffer", "plan_check", "transformer"]:
    rules_by_device, general_words_leave_other_devices_in_place_decisions_alone, each_type_has_its_own_rules, later_words_count, wrong_words_are_refused,
    rules_change_from_the_next_plan_on, rules_of_the_process_are_those_of_new_allocators, environment_says_rules,
    wrong_environment_is_reported,
);

program!(effort_settings, with ["hard_graph", "rule_graphs", "dummy_buffer", "plan_check", "transformer"]:
    more_effort_needs_less_memory, same_values_with_every_effort, more_effort_never_needs_more_memory,
    effort_changes_from_the_next_plan_on, several_types_need_a_reserve, rules_and_effort_do_not_mix,
    effort_of_the_process_is_that_of_new_allocators, reorder_plans_with_the_effort_of_the_process,
    environment_says_effort, zero_in_the_environment_is_the_default, empty_environment_says_nothing,
    word_in_the_environment_is_reported, negative_environment_is_reported, too_large_environment_is_reported,
    both_variables_are_read,
);

program!(unread_inputs, with ["dummy_buffer", "plan_check", "transformer"]:
    one_type, two_types, scheduler, selecting_in_one_type, selecting_in_two_types, selecting_in_a_scheduler,
    selecting_takes_no_memory_for_the_rest, callbacks_look_at_every_node,
);

program!(remembered, with ["random_graph", "dummy_buffer", "plan_check", "transformer"]:
    reserved_in_turn, allocated_in_turn, changed_graphs_are_not_mistaken, plans_for_other_buffers_are_not_used,
    graph_of_other_buffers_is_refused, failures_are_survived, failure_with_several_types_forgets_all,
    sizes_are_asked_at_most_once, parameters_that_tell_sizes_are_heeded,
    results_of_another_graph_are_known_again, chunk_without_bytes_is_added, empty_alternative_is_alone_in_its_buffer,
);

program!(measure, with ["random_graph", "dummy_buffer", "transformer"]:
    one_type, several_types_of_which_one_repeats, chunks_are_added_up, null_ids_mean_the_first_type,
    lower_bounds_may_be_missing, rules_of_the_process_count, empty_graph_needs_nothing, nothing_changes,
    tensors_of_contexts_take_none, allocators_are_left_alone, largest_of_each_buffer, enough_for_all,
    bad_arguments_are_refused, bad_ids_are_refused, bad_lists_of_graphs_are_refused,
    graphs_that_cannot_be_reserved_are_refused, sizes_that_overflow_are_refused,
);

program!(contexts, with ["dummy_buffer"]:
    ggml_knows_the_context, graph_is_computed_in_an_immediate_context, deferred_graph_is_allocated_and_computed,
    graph_of_a_million_nodes, all_tensors_of_a_deferred_context_at_once, address_space_can_be_said,
    wrong_arguments_are_refused, only_immediate_contexts_are_realized, first_buffer_is_exact, buffers_grow,
    tensors_alike_share_buffers,
    what_is_free_has_a_limit, limits_of_the_type_are_kept, extra_bytes_of_the_type_are_kept_free,
    views_and_empty_tensors, memory_of_the_program_is_left_alone, failures_are_survived,
    without_memory_to_spare_none_is_wanted, type_made_of_several_places_by_itself, emptied_context_uses_its_buffers_again,
    emptied_context_takes_more_when_it_must, what_lives_is_not_overwritten, graph_that_reads_a_context_realizes_it,
    measuring_allocates_nothing, graph_must_expect_a_tensor_where_its_context_puts_it,
    scheduler_computes_with_realized_weights, without_memory_the_graph_is_refused, contexts_in_threads,
);
